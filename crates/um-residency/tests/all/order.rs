//! Orders of working sets that repeat: what moves, how long it takes beside the bound and beside plans, and sets that differ.
//!
//! On a GPU, `tests/um-residency--all order:: --nocapture` of the bundle (docs/measuring.md) measures the same with 2 GiB of device memory.

use std::time::Duration;

use crate::support::{MIB, Machine, SLOT};
use cuda_um_testkit::on_gpu;
use um_backend::Buffer;
use um_backend::cuda_um::{DeviceBuffer, Event, PinnedBuffer};
use um_backend::kernels::Saxpy;
use um_backend::sim::{Builder, Gpu};
use um_residency::{Arena, Budget, Homed, InOut, Input, Output, Role, working_set};

/// The bytes of all buffers in relation to the budget.
const SIZES: [f64; 4] = [1.14, 1.33, 2.0, 4.0];
/// The time of all steps in relation to the time in which the link transfers all buffers.
const COMPUTE: [f64; 3] = [0.25, 1.0, 4.0];
/// Milliseconds of a pass of `Program::training` by the best of 17 plans for these sizes, in a simulation of transfers, each with three times
/// of the steps. A planner found them that knew all times; 7680 MiB, 55.5 GB/s to the device, 48 GB/s from it, and 0.87 of both if both work.
const PLANNED: [[f64; 3]; 4] = [
    [38.4, 145.1, 580.4],
    [52.5, 145.5, 580.4],
    [96.2, 145.8, 580.4],
    [152.9, 172.3, 581.1],
];
/// The milliseconds of that link for all bytes.
const PLANNED_LINK: f64 = 7680.0 * 1048576.0 / 55.5e6;

/// A step: the reads of a kernel, what it writes, and its time in units.
struct Step {
    reads: Vec<usize>,
    output: Option<usize>,
    update: Option<usize>,
    units: usize,
}

/// Buffers, by slots and role, and the steps of a pass.
struct Program {
    buffers: Vec<(usize, Role)>,
    steps: Vec<Step>,
}

impl Program {
    /// Layers whose weights are read one after the other.
    fn layers(count: usize, slots: usize) -> Self {
        let step = |layer| Step {
            reads: vec![layer],
            output: None,
            update: None,
            units: 1,
        };
        Self {
            buffers: vec![(slots, Role::ReadOnly); count],
            steps: (0..count).map(step).collect(),
        }
    }

    /// Forward, which writes activations, and backward, which reads them and adds to gradients.
    fn training(layers: usize, slots: usize) -> Self {
        let mut program = Self::layers(layers, slots);
        program
            .buffers
            .extend(vec![(slots / 2, Role::Scratch); layers]);
        program
            .buffers
            .extend(vec![(slots, Role::ReadWrite); layers]);
        for (layer, step) in program.steps.iter_mut().enumerate() {
            step.output = Some(layers + layer);
            step.reads
                .extend(layer.checked_sub(1).map(|before| layers + before));
        }
        let back = |layer| Step {
            reads: vec![layer, layers + layer],
            output: None,
            update: Some(2 * layers + layer),
            units: 2,
        };
        program.steps.extend((0..layers).rev().map(back));
        program
    }

    fn bytes(&self) -> u64 {
        self.buffers
            .iter()
            .map(|(slots, _)| *slots as u64 * 2 * MIB)
            .sum()
    }

    fn units(&self) -> usize {
        self.steps.iter().map(|step| step.units).sum()
    }
}

/// The machine, whose link takes as long for a layer of these slots as that of the plans for 32 MiB. On the simulator a kernel takes
/// some time although it has few elements.
fn machine(slots: usize) -> Machine {
    if on_gpu() {
        return Machine::new(Gpu::H200);
    }
    let mut cost = um_backend::cuda_um::cost::CostModel::h200();
    cost.pinned_rate = 55.5e9 * slots as f64 / 16.0;
    cost.kernel = Duration::from_micros(50);
    Machine::built(Builder::from_env().unwrap().gpu(Gpu::H200).cost_model(cost))
}

/// The elements of a launch on so many.
fn launched(len: usize) -> usize {
    if on_gpu() { len } else { len.min(256) }
}

/// A program whose buffers have homes, and the work of its steps.
struct Runner<'m> {
    machine: &'m Machine,
    program: &'m Program,
    saxpy: Saxpy,
    spare: DeviceBuffer<f32>,
    /// Milliseconds of the link for all buffers.
    link: f64,
}

impl<'m> Runner<'m> {
    fn new(machine: &'m Machine, program: &'m Program) -> Self {
        let device = &machine.device;
        let largest = program
            .buffers
            .iter()
            .map(|(slots, _)| *slots)
            .max()
            .unwrap();
        let mut runner = Self {
            machine,
            program,
            saxpy: Saxpy::load(device).unwrap(),
            spare: DeviceBuffer::zeroed(device, largest * SLOT).unwrap(),
            link: 0.0,
        };
        let home = PinnedBuffer::<f32>::zeroed(device, largest * SLOT).unwrap();
        let copy = runner.fastest(|runner| {
            let copy = machine.stream.copy(&home, &mut runner.spare);
            copy.unwrap();
        });
        runner.link = copy * program.bytes() as f64 / (largest as u64 * 2 * MIB) as f64;
        runner
    }

    /// The milliseconds of work on the stream.
    fn time(&mut self, work: impl FnOnce(&mut Self)) -> f64 {
        let stream = &self.machine.stream;
        let begin = Event::timed(stream).unwrap();
        work(self);
        let end = Event::timed(&self.machine.stream).unwrap();
        end.elapsed_since(&begin).unwrap().as_secs_f64() * 1e3
    }

    fn fastest(&mut self, mut work: impl FnMut(&mut Self)) -> f64 {
        let times = (0..5).map(|_| self.time(&mut work));
        times.fold(f64::INFINITY, f64::min)
    }

    /// The launches of a step with one unit, so that all steps together take this part of the link's time.
    fn work(&mut self, part: f64) -> usize {
        let unit = part * self.link / self.program.units() as f64;
        let len = launched(self.spare.len());
        let x = DeviceBuffer::zeroed(&self.machine.device, len).unwrap();
        let launch = self.fastest(|runner| {
            for _ in 0..50 {
                let y = runner.spare.view_mut(..len).unwrap();
                let stream = &runner.machine.stream;
                runner.saxpy.launch(stream, 0.0, &x, y).unwrap();
            }
        });
        (unit / (launch / 50.0)).round().max(1.0) as usize
    }

    /// The buffers in an arena of their own.
    fn buffers(&mut self, budget: u64) -> (Arena, Vec<Homed<f32>>) {
        let arena = Arena::new(&self.machine.device, Budget::Bytes(budget)).unwrap();
        let buffers = self.program.buffers.iter();
        let made = buffers.map(|&(slots, role)| match role {
            Role::Scratch => Homed::zeroed(&arena, slots * SLOT, role).unwrap(),
            _ => Homed::from_slice(&arena, &vec![0.0; slots * SLOT], role).unwrap(),
        });
        (arena.clone(), made.collect())
    }

    fn pass(&mut self, buffers: &[Homed<f32>], launches: usize) {
        let stream = &self.machine.stream;
        for step in &self.program.steps {
            let reads: Vec<_> = step.reads.iter().map(|&at| Input(&buffers[at])).collect();
            let output: Vec<_> = step.output.iter().map(|&at| Output(&buffers[at])).collect();
            let update: Vec<_> = step.update.iter().map(|&at| InOut(&buffers[at])).collect();
            let (reads, output, update) = working_set(stream, (reads, output, update)).unwrap();
            let mut written = output.into_iter().chain(update).next();
            let mut y = match &mut written {
                Some(guard) => guard.view_mut(),
                None => self.spare.as_view_mut(),
            };
            // Each read is one launch at least, and all of them take the time of the step.
            let count = (launches * step.units).max(reads.len());
            for x in reads.iter().cycle().take(count) {
                let len = launched(x.len().min(y.len()));
                let (x, y) = (x.view().slice(..len).unwrap(), y.slice_mut(..len).unwrap());
                self.saxpy.launch(stream, 0.0, x, y).unwrap();
            }
        }
    }
}

/// A measured pass in the steady state. Times in milliseconds.
struct Row {
    size: usize,
    compute: usize,
    /// The part of all bytes that fits.
    fits: f64,
    /// The parts of all bytes that moved.
    moved: [f64; 2],
    time: f64,
    /// The time of the pass if all buffers fit, and that of the link for all bytes.
    computing: f64,
    link: f64,
}

fn measure(program: &Program, slots: usize) -> Vec<Row> {
    let machine = machine(slots);
    let mut runner = Runner::new(&machine, program);
    let all = program.bytes();
    let works = COMPUTE.map(|part| runner.work(part));
    let (arena, buffers) = runner.buffers(all);
    let computing = works.map(|work| {
        runner.pass(&buffers, work);
        runner.time(|runner| runner.pass(&buffers, work))
    });
    drop((arena, buffers));
    let mut rows = Vec::new();
    for (size, ratio) in SIZES.iter().enumerate() {
        let (arena, buffers) = runner.buffers((all as f64 / ratio) as u64);
        // Two passes repeat, and the next one goes over to the order.
        (0..3).for_each(|_| runner.pass(&buffers, works[0]));
        assert_eq!(arena.stats().followed, program.steps.len() as u64);
        for (compute, &work) in works.iter().enumerate() {
            runner.time(|runner| runner.pass(&buffers, work));
            let before = arena.stats();
            let time = runner.time(|runner| runner.pass(&buffers, work));
            let after = arena.stats();
            let part = |bytes: u64| bytes as f64 / all as f64;
            rows.push(Row {
                size,
                compute,
                fits: part(arena.budget_bytes()),
                moved: [
                    part(after.in_bytes - before.in_bytes),
                    part(after.out_bytes - before.out_bytes),
                ],
                time,
                computing: computing[compute],
                link: runner.link,
            });
        }
        assert!(arena.stats().peak_bytes <= arena.budget_bytes());
    }
    rows
}

/// Prints the rows with their times in relation to another one, and returns the largest ratio.
fn table(title: &str, rows: &[Row], other: impl Fn(&Row) -> f64) -> f64 {
    println!(
        "\n{title}\n\n| M/B | compute/link | in/M | out/M | time, ms | in relation | if all fits, ms |"
    );
    println!("|---|---|---|---|---|---|---|");
    let ratios = rows.iter().map(|row| {
        let ([into, out], ratio) = (row.moved, row.time / other(row));
        println!(
            "| {} | {} | {into:.3} | {out:.3} | {:.1} | {ratio:.3} | {:.1} |",
            SIZES[row.size], COMPUTE[row.compute], row.time, row.computing
        );
        ratio
    });
    ratios.fold(0.0, f64::max)
}

/// Layers in a cycle move little more than the bytes that do not fit, spread evenly.
#[test]
fn layers_in_a_cycle_take_the_time_of_the_bytes_that_do_not_fit() {
    let slots = if on_gpu() { 3 } else { 1 };
    let program = Program::layers(256, slots);
    let rows = measure(&program, slots);
    let bound = |row: &Row| row.computing.max((1.0 - row.fits) * row.link);
    let most = table("256 layers in a cycle, beside the bound", &rows, bound);
    for row in &rows {
        // Two layers take turns where one of them would fit.
        assert!(row.moved[0] - (1.0 - row.fits) < 2.5 / 256.0 && row.moved[1] == 0.0);
    }
    // A GPU's figures are read.
    assert!(on_gpu() || most <= 1.05, "{most}");
}

/// Training moves as much as it does by a plan of a program that knows all times.
#[test]
fn training_takes_the_time_of_a_plan() {
    let slots = if on_gpu() { 4 } else { 2 };
    let program = Program::training(96, slots);
    let rows = measure(&program, slots);
    // No plan is faster than the kernels, which take longer than the plan's where they have least to compute.
    let planned =
        |row: &Row| (PLANNED[row.size][row.compute] / PLANNED_LINK * row.link).max(row.computing);
    let most = table("Training of 96 layers, beside plans", &rows, planned);
    assert!(on_gpu() || most <= 1.15, "{most}");
}

/// Weights forward and backward: each set comes twice in a pass, in another place. An order is followed from its third pass on, until a set differs.
#[test]
fn an_order_is_followed_until_a_set_differs() {
    let machine = Machine::new(Gpu::H200);
    let (arena, stream) = (machine.arena(3), &machine.stream);
    let layer = |value: u32| Homed::from_slice(&arena, &vec![value; SLOT], Role::ReadOnly);
    let layers: Vec<_> = (0..5).map(|value| layer(value).unwrap()).collect();
    let set = |layer: &Homed<u32>| drop(working_set(stream, Input(layer)).unwrap());
    let misses = || {
        let before = arena.stats().in_bytes;
        layers.iter().chain(layers.iter().rev()).for_each(set);
        (arena.stats().in_bytes - before) / (2 * MIB)
    };
    assert_eq!([misses(), misses()], [7, 4]);
    assert_eq!(arena.stats().followed, 10);
    assert_eq!([misses(), misses(), misses()], [4, 4, 4]);
    assert_eq!(arena.stats().followed, 10);
    set(&layers[2]);
    assert_eq!(arena.stats().followed, 0);
    assert_eq!([misses(), misses()], [4, 4]);
    assert_eq!(arena.stats().followed, 10);
}

/// Five layers in turn, of which three fit: the least recently used one would leave just before its use.
#[test]
fn buffers_with_a_near_use_stay() {
    let machine = Machine::new(Gpu::H200);
    let (arena, stream) = (machine.arena(4), &machine.stream);
    let layer = |value: u32| Homed::from_slice(&arena, &vec![value; SLOT], Role::ReadWrite);
    let mut layers: Vec<_> = (0..5).map(|value| layer(value).unwrap()).collect();
    let pass = |layers: &[Homed<u32>]| {
        let before = arena.stats().in_bytes;
        for layer in layers {
            let mut guard = working_set(stream, InOut(layer)).unwrap();
            let value = guard.to_vec().unwrap()[SLOT - 1];
            guard.view_mut().fill_on(value + 5, stream).unwrap();
        }
        (arena.stats().in_bytes - before) / (2 * MIB)
    };
    let moved: Vec<_> = (0..5).map(|_| pass(&layers)).collect();
    // The second pass already reads ahead for the third one.
    assert_eq!(moved, [5, 6, 4, 3, 3]);
    // The host writes one, and another one is dropped: the order ends.
    layers[3].fill(3).unwrap();
    assert_eq!(pass(&layers), 3);
    drop(layers.remove(1));
    assert_eq!(arena.stats().followed, 0);
    pass(&layers);
    let values: Vec<_> = layers
        .iter()
        .map(|layer| layer.read_one(7).unwrap())
        .collect();
    assert_eq!(values, [35, 37, 13, 39]);
}
