//! Loops, and their costs by round.

use std::time::Duration;

use cuda_um::{Location, Stream};
use um_backend::sim::{Gpu, Sim};
use um_backend::{CudaBackend, UnifiedBuffer, cuda_um::auto::AutoPrefetchReport};

use crate::support::kernel::Double;
use crate::support::{Machine, on_preset};

/// 3 MiB.
pub const LEN: usize = 786_432;

/// What one round cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    pub time: Duration,
    pub faults: u64,
    pub bytes: u64,
}

/// A loop on a machine.
pub struct Loop<'a> {
    pub backend: &'a CudaBackend,
    pub double: Double,
    sim: &'a Sim,
}

impl Loop<'_> {
    pub fn stream(&self) -> &Stream {
        self.backend.device().stream()
    }

    pub fn buffer(&self, len: usize) -> UnifiedBuffer<f32> {
        self.backend.allocate_unified(len).unwrap()
    }

    pub fn double(&self, buffer: &mut UnifiedBuffer<f32>) {
        self.double.launch(self.backend.device(), buffer).unwrap();
    }

    /// Runs rounds, and returns the cost of each.
    pub fn rounds(&self, count: usize, mut round: impl FnMut(usize)) -> Vec<Cost> {
        let now = |backend: &CudaBackend| {
            backend.synchronize().unwrap();
            let counts = backend.migration_counts().unwrap();
            let faults = counts.gpu_faults + counts.cpu_faults;
            let bytes = counts.bytes_to_device + counts.bytes_to_host;
            (self.sim.now(), faults, bytes)
        };
        let cost = |at| {
            let before = now(self.backend);
            round(at);
            let after = now(self.backend);
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
        self.backend
            .auto_prefetch(|| self.rounds(count, round))
            .unwrap()
    }

    /// The host writes all of a buffer, a kernel uses it a few times, and the host reads it. `hints` are prefetches by hand.
    pub fn faulting(&self, count: usize, hints: bool, launches: u32) -> impl FnMut(usize) {
        let mut data = self.buffer(count);
        let (backend, double) = (self.backend.clone(), self.double.clone());
        move |round| {
            let stream = backend.device().stream();
            let here = Location::from(backend.device());
            let to = |data: &UnifiedBuffer<f32>, place: Location| {
                if hints {
                    data.prefetch_on(place, stream).unwrap();
                }
            };
            to(&data, Location::Host);
            data.host_mut().unwrap().fill(round as f32 + 1.0);
            to(&data, here);
            for _ in 0..launches {
                double.launch(backend.device(), &mut data).unwrap();
            }
            to(&data, Location::Host);
            let expected = (round as f32 + 1.0) * (1u32 << launches) as f32;
            assert!(data.host().unwrap().iter().all(|x| *x == expected));
        }
    }
}

/// Runs a test on a simulated H200.
pub fn on_h200(test: impl Fn(&Loop<'_>)) {
    on_preset(Gpu::H200, |builder| builder, |machine| on(machine, &test));
}

/// Runs a test with the loop of a machine.
pub fn on(machine: &Machine, test: impl Fn(&Loop<'_>)) {
    let backend = machine.backend();
    let double = Double::load(backend.device());
    let sim = machine.sim.as_ref().unwrap();
    test(&Loop {
        backend: &backend,
        double,
        sim,
    });
}
