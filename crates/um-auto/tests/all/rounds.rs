//! Loops, and their costs by round.

use cuda_um::kernel::KernelArgs;
use cuda_um::{Device, Kernel, LaunchConfig, Location, Module, Stream, UnifiedBuffer};
use cuda_um_sim::{Gpu, Sim};
use cuda_um_testkit::{on_gpu, simulated};
use std::time::Duration;
use um_auto::{AutoPrefetch, AutoPrefetchReport};

/// 3 MiB.
pub const LEN: usize = 786_432;

/// What one round cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    pub time: Duration,
    pub faults: u64,
    pub bytes: u64,
}

/// A kernel that doubles each element.
#[derive(Clone)]
pub struct Double(Kernel);

impl Double {
    fn load(device: &Device) -> Self {
        let ptx = include_str!("../../../um-backend/tests/support/double.ptx");
        let module = Module::load(device, ptx).unwrap();
        Self(module.kernel("um_backend_double").unwrap())
    }

    /// Doubles `count` elements; the arguments are what holds them, and `count` as `u32`.
    pub fn launch_on(
        &self,
        stream: &Stream,
        count: usize,
        arguments: impl KernelArgs,
    ) -> cuda_um::Result<()> {
        let shape = LaunchConfig::linear(count, 256);
        // SAFETY: the tests pass a buffer of at least `count` f32, and `count` again.
        #[allow(unsafe_code, reason = "launches the kernel of double.ptx")]
        unsafe {
            self.0.launch(stream, shape, arguments)
        }
    }
}

/// A loop on a machine.
pub struct Loop {
    pub device: Device,
    pub double: Double,
    pub sim: Sim,
    stream: Stream,
}

impl Loop {
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    pub fn buffer(&self, len: usize) -> UnifiedBuffer<f32> {
        UnifiedBuffer::zeroed(&self.device, len).unwrap()
    }

    pub fn double(&self, buffer: &mut UnifiedBuffer<f32>) {
        let count = buffer.len();
        let arguments = (buffer, count as u32);
        self.double
            .launch_on(&self.stream, count, arguments)
            .unwrap();
    }

    /// Starts a scope with the simulator's clock.
    pub fn start(&self) -> AutoPrefetch {
        let sim = self.sim.clone();
        AutoPrefetch::start_with_clock(&self.device, move || sim.now()).unwrap()
    }

    /// Runs rounds, and returns the cost of each.
    pub fn rounds(&self, count: usize, mut round: impl FnMut(usize)) -> Vec<Cost> {
        let now = || {
            self.device.synchronize().unwrap();
            let counts = self.sim.counters();
            let faults = counts.gpu_faults + counts.cpu_faults;
            let bytes = counts.bytes_to_device + counts.bytes_to_host;
            (self.sim.now(), faults, bytes)
        };
        let cost = |at| {
            let before = now();
            round(at);
            let after = now();
            Cost {
                time: after.0 - before.0,
                faults: after.1 - before.1,
                bytes: after.2 - before.2,
            }
        };
        (0..count).map(cost).collect()
    }

    /// Runs rounds in a scope.
    pub fn auto(&self, count: usize, round: impl FnMut(usize)) -> (Vec<Cost>, AutoPrefetchReport) {
        let auto = self.start();
        let costs = self.rounds(count, round);
        (costs, auto.stop())
    }

    /// The host writes all of a buffer, a kernel uses it a few times, and the host reads it. `hints` are prefetches by hand.
    pub fn faulting(&self, count: usize, hints: bool, launches: u32) -> impl FnMut(usize) + use<> {
        let mut data = self.buffer(count);
        let (stream, double) = (self.stream.clone(), self.double.clone());
        let here = Location::from(&self.device);
        move |round| {
            let to = |data: &UnifiedBuffer<f32>, place: Location| {
                if hints {
                    data.prefetch_on(place, &stream).unwrap();
                }
            };
            to(&data, Location::Host);
            data.host_mut().unwrap().fill(round as f32 + 1.0);
            to(&data, here);
            for _ in 0..launches {
                let arguments = (&mut data, count as u32);
                double.launch_on(&stream, count, arguments).unwrap();
            }
            to(&data, Location::Host);
            let expected = (round as f32 + 1.0) * (1u32 << launches) as f32;
            assert!(data.host().unwrap().iter().all(|x| *x == expected));
        }
    }
}

/// Runs a test on a simulated H200.
pub fn on_h200(test: impl Fn(&Loop)) {
    on(Gpu::H200, test);
}

/// Runs a test on a simulated device.
pub fn on(gpu: Gpu, test: impl Fn(&Loop)) {
    if on_gpu() {
        return eprintln!("skipped on a GPU: this part needs the preset {gpu:?}");
    }
    let (checked, device, stream) = simulated(gpu);
    test(&Loop {
        double: Double::load(&device),
        sim: Sim::clone(&checked),
        device,
        stream,
    });
}
