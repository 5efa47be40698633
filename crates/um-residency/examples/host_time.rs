//! The host's time of working sets and of planned passes beside plain launches: the median of a step, in nanoseconds.
//!
//! `cargo run --release -p um-residency --example host_time`, on a GPU or on the simulator (`CUDA_UM_RUNTIME`). The figures that count are those of
//! a driver that does nothing (`CUDA_UM_CUDART` names its library), because the time of a call of CUDA is part of each figure.

use std::time::Instant;

use um_backend::cuda_um::{DeviceBuffer, Stream};
use um_backend::kernels::Scale;
use um_backend::{CudaBackend, CudaBackendConfig};
use um_residency::{Arena, Budget, Homed, InOut, Input, Link, Planned, Role, working_set};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const ROUNDS: usize = 400;
/// The steps of a pass.
const STEPS: usize = 64;
/// The elements of a layer, which has a slot.
const LEN: usize = (2 << 20) / 4;

/// Runs passes, and prints the median time of a step. Returns it.
fn measure(
    what: &str,
    backend: &CudaBackend,
    mut pass: impl FnMut() -> Outcome<()>,
) -> Outcome<f64> {
    let mut times = Vec::with_capacity(ROUNDS);
    for round in 0..ROUNDS + 10 {
        let start = Instant::now();
        pass()?;
        let time = start.elapsed().as_nanos() as f64 / STEPS as f64;
        backend.synchronize()?;
        if round >= 10 {
            times.push(time);
        }
    }
    times.sort_by(f64::total_cmp);
    println!("{what}: {:.0} ns", times[ROUNDS / 2]);
    Ok(times[ROUNDS / 2])
}

/// A stack of layers in an arena, and a step's kernel for each.
struct Stack {
    arena: Arena,
    layers: Vec<Homed<f32>>,
    sum: Homed<f32>,
    scale: Scale,
}

impl Stack {
    fn new(backend: &CudaBackend, slots: usize) -> Outcome<Self> {
        let arena = Arena::new(backend.device(), Budget::Bytes((slots as u64) << 21))?;
        let layer = |_| Homed::from_slice(&arena, &vec![1.0f32; LEN], Role::ReadOnly);
        Ok(Self {
            layers: (0..STEPS).map(layer).collect::<Result<_, _>>()?,
            sum: Homed::zeroed(&arena, LEN, Role::ReadWrite)?,
            scale: Scale::load(backend.device())?,
            arena,
        })
    }

    fn pass(&self, stream: &Stream) -> Outcome<()> {
        for layer in &self.layers {
            let (input, mut output) = working_set(stream, (Input(layer), InOut(&self.sum)))?;
            self.scale.launch(stream, &input, &mut output, 2.0)?;
        }
        Ok(())
    }

    fn planned(&self, stream: &Stream) -> Outcome<Planned> {
        let (done, program) = self.arena.record(stream, || self.pass(stream))?;
        done?;
        let plan = program.solve(self.arena.plan_budget(), Link::pcie5())?;
        Ok(Planned::new(&self.arena, program, plan)?)
    }
}

fn main() -> Outcome<()> {
    let backend = CudaBackend::initialize_blocking(CudaBackendConfig::default())?;
    println!("{}", backend.runtime_description());
    let stream = backend.device().create_stream()?;
    let below = backend.device();
    let scale = Scale::load(below)?;
    let inputs = (0..STEPS).map(|_| DeviceBuffer::<f32>::zeroed(below, LEN));
    let inputs: Vec<_> = inputs.collect::<Result<_, _>>()?;
    let mut output = DeviceBuffer::<f32>::zeroed(below, LEN)?;
    let launch = measure("a launch with two buffers", &backend, || {
        inputs
            .iter()
            .try_for_each(|input| scale.launch(&stream, input, &mut output, 2.0))?;
        Ok(())
    })?;
    drop((inputs, output));
    for (what, slots) in [
        ("everything resident", STEPS + 2),
        ("twice the budget", STEPS / 2),
    ] {
        let stack = Stack::new(&backend, slots)?;
        let title = format!("{what}: a working set and its launch");
        let set = measure(&title, &backend, || stack.pass(&stream))?;
        let mut planned = stack.planned(&stream)?;
        let title = format!("{what}: a step of a planned pass");
        let step = measure(&title, &backend, || {
            planned.run(&stream, || stack.pass(&stream))?
        })?;
        let over = [set - launch, step - launch];
        println!(
            "  more than the launch: {:.0} and {:.0} ns",
            over[0], over[1]
        );
    }
    Ok(())
}
