//! Arenas of unified buffers: a budget without slots.

mod support;

use std::cell::RefCell;
use std::thread;

use support::{MIB, Machine, SLOT};
use um_backend::cuda_um::{
    AccessPattern, DeviceBuffer, Location, Oversubscription, Placement, Stream, UnifiedBuffer,
    UnifiedOptions,
};
use um_backend::kernels::Reduce;
use um_backend::sim::Gpu;
use um_backend::{Buffer, CudaError};
use um_residency::{
    Arena, Budget, Error, Homed, Link, Planned, Program, Read, Role, Update, working_set,
};

/// The slots of a layer, and of the arena.
const LAYER: usize = 4;
const SLOTS: u64 = 20;
const LAYERS: usize = 10;

fn unified(machine: &Machine, slots: u64) -> Arena {
    Arena::unified(&machine.device, Budget::Bytes(2 * slots * MIB)).unwrap()
}

fn homed(machine: &Machine, arena: &Arena, value: f32, slots: usize) -> Homed<f32> {
    let options = UnifiedOptions::default().oversubscription(Oversubscription::Allowed);
    let elements = vec![value; slots * SLOT];
    let below = machine.device.as_cuda_um();
    let home = UnifiedBuffer::from_slice_with(below, &elements, options).unwrap();
    Homed::from_unified(arena, home).unwrap()
}

/// Layers twice as large as the budget, and the sum of each.
struct Layers {
    arena: Arena,
    weights: Vec<Homed<f32>>,
    sums: RefCell<DeviceBuffer<f32>>,
    reduce: Reduce,
    /// The free memory of the device if no layer has a copy there.
    free: u64,
    /// Dropped last, because it checks for leaks.
    machine: Machine,
}

impl Layers {
    fn new() -> Self {
        let machine = Machine::new(Gpu::H200);
        let arena = unified(&machine, SLOTS);
        let layer = |layer: usize| {
            let mut buffer = homed(&machine, &arena, layer as f32 + 1.0, LAYER);
            buffer.set_name(&format!("layer {layer}"));
            buffer
        };
        let below = machine.device.as_cuda_um().clone();
        let layers = Self {
            weights: (0..LAYERS).map(layer).collect(),
            sums: RefCell::new(DeviceBuffer::zeroed(&below, LAYERS).unwrap()),
            reduce: Reduce::load(&below).unwrap(),
            arena,
            free: 0,
            machine,
        };
        // The workspace of the kernel.
        layers.step(0).unwrap();
        let filled = homed(&layers.machine, &layers.arena, 0.0, SLOTS as usize);
        drop(working_set(&layers.machine.stream, Read(&filled)).unwrap());
        drop(filled);
        let _ = below.runtime().reclaim();
        let free = layers.free_bytes();
        Self { free, ..layers }
    }

    fn free_bytes(&self) -> u64 {
        self.machine.device.memory_info().unwrap().free_bytes as u64
    }

    fn step(&self, layer: usize) -> Result<(), Error> {
        let stream = &self.machine.stream;
        let weights = working_set(stream, Read(&self.weights[layer]))?;
        let mut sums = self.sums.borrow_mut();
        let sum = sums.view_mut(layer..=layer).map_err(CudaError::from)?;
        let launched = self.reduce.sum(stream, &weights, sum);
        launched.map_err(CudaError::from)?;
        Ok(())
    }

    /// Forward and backward.
    fn pass(&self) -> Result<(), Error> {
        for layer in (0..LAYERS).chain((0..LAYERS).rev()) {
            self.step(layer)?;
            let used = self.free.saturating_sub(self.free_bytes());
            // Other programs use a GPU, too.
            assert!(
                self.machine.sim.is_none() || used <= self.arena.budget_bytes(),
                "{used}"
            );
        }
        Ok(())
    }

    fn check(&self) {
        let found = self.sums.borrow().read_back().unwrap();
        let expected = (1..=LAYERS).map(|layer| (layer * LAYER * SLOT) as f32);
        assert_eq!(found, expected.collect::<Vec<_>>());
    }

    fn record(&self) -> (Program, Link) {
        let link = self.arena.measure_link().unwrap();
        let stream = &self.machine.stream;
        let (done, program) = self.arena.record(stream, || self.pass()).unwrap();
        done.unwrap();
        (program, link)
    }
}

#[test]
fn a_planned_pass_keeps_the_budget() {
    let layers = Layers::new();
    let (program, link) = layers.record();
    let plan = program.solve(layers.arena.plan_budget(), link).unwrap();
    let mut planned = Planned::new(&layers.arena, program, plan).unwrap();
    for _ in 0..5 {
        let ran = planned.run(&layers.machine.stream, || layers.pass());
        ran.unwrap().unwrap();
    }
    let report = planned.report().unwrap();
    println!("{report}");
    assert!(report.prediction.in_bytes > 0);
    for pass in &report.passes {
        assert_eq!(pass.divergence, None);
    }
    for pass in &report.passes[2..] {
        let bytes = [pass.in_bytes, pass.out_bytes];
        assert_eq!(bytes, [report.prediction.in_bytes, 0], "{report}");
        let ratio = pass.time.as_secs_f64() / report.prediction.seconds;
        println!("{ratio}");
    }
    let stats = layers.arena.stats();
    assert_eq!(stats.peak_bytes, layers.arena.budget_bytes());
    layers.check();
}
