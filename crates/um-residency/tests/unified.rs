//! Arenas of unified buffers: a budget without slots.

mod support;

use std::cell::RefCell;
use std::ops::RangeInclusive;
use std::thread;
use std::time::Duration;

use support::{MIB, Machine, SLOT, each_machine};
use um_backend::cuda_um::{
    DeviceBuffer, Oversubscription, Placement, UnifiedBuffer, UnifiedOptions,
};
use um_backend::kernels::{Reduce, Saxpy};
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
    of_role(machine, arena, (value, slots), Role::ReadOnly)
}

fn of_role(
    machine: &Machine,
    arena: &Arena,
    (value, slots): (f32, usize),
    role: Role,
) -> Homed<f32> {
    let options = UnifiedOptions::default().oversubscription(Oversubscription::Allowed);
    let elements = vec![value; slots * SLOT];
    let below = machine.device.as_cuda_um();
    let home = UnifiedBuffer::from_slice_with(below, &elements, options).unwrap();
    Homed::from_unified(arena, home, role).unwrap()
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
    fn new(machine: Machine) -> Self {
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
        let found = self.sums.borrow().to_vec().unwrap();
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

/// If a layer takes less than its transfer, as long, and longer; and if advice takes half as long, a part of it while the link is busy.
#[test]
fn a_planned_pass_keeps_the_budget() {
    keeps_the_budget(Machine::new(Gpu::H200), 0.98..=1.03);
    keeps_the_budget(Machine::with_slow_sum::<150>(), 0.98..=1.03);
    keeps_the_budget(Machine::with_slow_sum::<400>(), 0.98..=1.03);
    keeps_the_budget(Machine::with_advice(Duration::from_micros(80)), 0.6..=1.03);
}

fn keeps_the_budget(machine: Machine, times: RangeInclusive<f64>) {
    let layers = Layers::new(machine);
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
        assert!(layers.machine.sim.is_none() || times.contains(&ratio));
    }
    let stats = layers.arena.stats();
    assert_eq!(stats.peak_bytes, layers.arena.budget_bytes());
    layers.check();
}

#[test]
fn a_pass_that_leaves_its_plan_keeps_the_budget() {
    let layers = Layers::new(Machine::new(Gpu::H200));
    let (program, link) = layers.record();
    let plan = program.solve(layers.arena.plan_budget(), link).unwrap();
    let mut planned = Planned::new(&layers.arena, program, plan).unwrap();
    let stream = &layers.machine.stream;
    planned.run(stream, || layers.pass()).unwrap().unwrap();
    let other = || {
        layers.step(LAYERS - 1)?;
        layers.pass()
    };
    planned.run(stream, other).unwrap().unwrap();
    for _ in 0..3 {
        planned.run(stream, || layers.pass()).unwrap().unwrap();
    }
    let report = planned.report().unwrap();
    let left = |at: usize| report.passes[at].divergence.is_some();
    assert_eq!(
        [0, 1, 2, 3, 4].map(left),
        [false, true, false, false, false]
    );
    assert_eq!(report.passes[4].in_bytes, report.prediction.in_bytes);
    layers.check();
}

/// The least recently used buffer leaves, without a transfer.
#[test]
fn sets_without_a_plan_take_turns() {
    let machine = Machine::new(Gpu::H200);
    let (arena, stream) = (unified(&machine, 2), &machine.stream);
    let all = [1.0, 2.0, 3.0].map(|value| homed(&machine, &arena, value, 1));
    let holds = |at: usize| {
        let guard = working_set(stream, Read(&all[at])).unwrap();
        assert_eq!(guard.to_vec().unwrap(), vec![at as f32 + 1.0; SLOT]);
    };
    arena.announce(&Read(&all[1])).unwrap();
    holds(0);
    assert!(all[1].is_resident(), "there is room");
    [1, 0, 2].into_iter().for_each(holds);
    assert_eq!(all.each_ref().map(Homed::is_resident), [true, false, true]);
    let stats = arena.stats();
    assert_eq!(
        (stats.in_bytes, stats.out_bytes, stats.peak_bytes),
        (6 * MIB, 0, 4 * MIB)
    );
    let pair = working_set(stream, (Read(&all[0]), Read(&all[1]))).unwrap();
    let refused = working_set(stream, Read(&all[2])).unwrap_err();
    assert!(matches!(refused, Error::WouldDeadlock { .. }), "{refused}");
    drop(pair);
    let refused = working_set(stream, [0, 1, 2].map(|at| Read(&all[at]))).unwrap_err();
    assert!(matches!(refused, Error::OverBudget { .. }), "{refused}");
}

/// The host reads beside a guard, and what it writes leaves the device before.
#[test]
fn the_host_reads_and_writes_the_home() {
    let machine = Machine::new(Gpu::H200);
    let (arena, stream) = (unified(&machine, 2), &machine.stream);
    let mut buffer = homed(&machine, &arena, 1.0, 2);
    let free = || machine.device.memory_info().unwrap().free_bytes;
    let before = free();
    let guard = working_set(stream, Read(&buffer)).unwrap();
    assert_eq!(buffer.read_one(5).unwrap(), 1.0);
    assert_eq!(guard.to_vec().unwrap(), vec![1.0; 2 * SLOT]);
    assert!(machine.sim.is_none() || before - free() == 4 << 20);
    drop(guard);
    buffer.copy_from_host_at(3, &[7.0]).unwrap();
    assert!(!buffer.is_resident());
    assert!(machine.sim.is_none() || before == free());
    let found = working_set(stream, Read(&buffer)).unwrap().to_vec();
    assert_eq!(found.unwrap()[2..5], [1.0, 7.0, 1.0]);
    buffer.fill(9.0).unwrap();
    let mut other = buffer.clone_empty(10).unwrap();
    other.copy_from_host(&[4.0; 10]).unwrap();
    assert_eq!(other.to_vec().unwrap(), [4.0; 10]);
    let found = working_set(stream, Read(&buffer)).unwrap().to_vec();
    assert_eq!(found.unwrap(), vec![9.0; 2 * SLOT]);
    std::mem::forget(working_set(stream, Read(&buffer)).unwrap());
    let refused = buffer.fill(1.0).unwrap_err();
    assert!(
        matches!(refused, CudaError::StorageInUse { .. }),
        "{refused}"
    );
    drop(buffer);
    let next = homed(&machine, &arena, 1.0, 1);
    let refused = working_set(stream, Read(&next)).unwrap_err();
    assert!(
        matches!(
            refused,
            Error::OverBudget {
                budget_bytes: 0,
                ..
            }
        ),
        "{refused}"
    );
    // The forgotten guard keeps the arena, so the machine is never free of leaks.
    drop((next, other, arena));
    std::mem::forget(machine);
}

#[test]
fn arenas_and_homes_that_do_not_suit() {
    each_machine(|machine| {
        let budget = Budget::Bytes(4 * MIB);
        let arena = Arena::unified(&machine.device, budget);
        if !machine.device.capabilities().concurrent_managed_access {
            let refused = arena.unwrap_err().to_string();
            assert!(refused.contains("ConcurrentManagedAccess"), "{refused}");
            return;
        }
        let (arena, stream) = (arena.unwrap(), &machine.stream);
        let refused = Arena::unified(&machine.device, Budget::Bytes(5)).unwrap_err();
        assert!(matches!(refused, Error::Budget { .. }), "{refused}");
        let mut pinned = Homed::from_slice(&arena, &[1u32; 9], Role::ReadOnly).unwrap();
        pinned.set_name("weights");
        let words = "buffer weights has its home in pinned or registered memory: buffers of `Homed::from_unified` belong to an arena of \
                     `Arena::unified`, all others to one of `Arena::new`";
        for refused in [
            working_set(stream, Read(&pinned)).map(drop),
            arena.announce(&Read(&pinned)),
        ] {
            assert_eq!(refused.unwrap_err().to_string(), words);
        }
        assert_eq!(pinned.to_vec().unwrap(), [1; 9]);
        let below = machine.device.as_cuda_um();
        let made = |placement| {
            let options = UnifiedOptions::default().placement(placement);
            UnifiedBuffer::from_slice_with(below, &[1u32; 9], options).unwrap()
        };
        let slots = machine.arena(1);
        let refused =
            Homed::from_unified(&slots, made(Placement::Managed), Role::ReadOnly).unwrap_err();
        assert!(matches!(refused, Error::OtherArena { .. }), "{refused}");
        let refused =
            Homed::from_unified(&arena, made(Placement::Mapped), Role::ReadOnly).unwrap_err();
        assert!(
            matches!(refused, Error::Cuda(CudaError::Cuda(_)))
                && refused.to_string().contains("mapped"),
            "{refused:?}"
        );
        let mut buffer =
            Homed::from_unified(&arena, made(Placement::Managed), Role::ReadOnly).unwrap();
        assert_eq!(buffer.role(), Role::ReadOnly);
        let refused = working_set(stream, Update(&buffer)).unwrap_err();
        assert!(matches!(refused, Error::ReadOnly { .. }), "{refused}");
        let refused = buffer.set_read_once(true).unwrap_err().to_string();
        assert!(refused.contains("managed memory"), "{refused}");
    });
}

/// Threads with random sets, drops and writes of the host.
#[test]
fn threads_with_random_sets_see_the_right_bytes() {
    let machine = Machine::new(Gpu::H200);
    let arena = unified(&machine, 5);
    let shared = [1, 2, 3, 1, 2, 3].map(|slots| homed(&machine, &arena, slots as f32, slots));
    let play = |seed: usize| {
        let stream = machine.device.as_cuda_um().stream().unwrap();
        let mut own = homed(&machine, &arena, 0.5, 1);
        let mut value = 0.5;
        for turn in 0..60 {
            let at = (seed * 7919 + turn * turn * 31) % 7;
            if at == 6 {
                value = turn as f32;
                own.fill(value).unwrap();
                continue;
            }
            let set = (Read(&shared[at]), Read(&own));
            let (theirs, mine) = working_set(&stream, set).unwrap();
            assert_eq!(theirs.view().read_one(turn).unwrap(), (at % 3) as f32 + 1.0);
            assert_eq!(mine.view().read_one(turn).unwrap(), value);
            if turn % 20 == 19 {
                drop((theirs, mine));
                own = homed(&machine, &arena, turn as f32, 1);
                value = turn as f32;
            }
        }
    };
    thread::scope(|scope| {
        for seed in [1, 2, 3, 4] {
            scope.spawn({
                let play = &play;
                move || play(seed)
            });
        }
    });
    let stats = arena.stats();
    assert!(
        stats.misses > 20 && stats.peak_bytes <= arena.budget_bytes(),
        "{stats:?}"
    );
}

/// A step has a set of each arena, and each arena has its plan.
#[test]
fn weights_are_beside_results_of_an_arena_of_slots() {
    let machine = Machine::new(Gpu::H200);
    let (pages, slots, stream) = (unified(&machine, 3), machine.arena(2), &machine.stream);
    let weights = [1.0, 2.0, 3.0, 4.0].map(|value| homed(&machine, &pages, value, 1));
    let results = [(); 4].map(|()| Homed::zeroed(&slots, SLOT, Role::ReadWrite).unwrap());
    let saxpy = Saxpy::load(machine.device.as_cuda_um()).unwrap();
    let pass = || {
        for (weights, result) in weights.iter().zip(&results) {
            let weights = working_set(stream, Read(weights))?;
            let mut result = working_set(stream, Update(result))?;
            let launched = saxpy.launch(stream, 1.0, &weights, &mut result);
            launched.map_err(CudaError::from)?;
        }
        Ok::<(), Error>(())
    };
    let (inner, results_of) = slots.record(stream, || pages.record(stream, pass)).unwrap();
    let (done, weights_of) = inner.unwrap();
    done.unwrap();
    let mut plans = [(&pages, weights_of), (&slots, results_of)].map(|(arena, program)| {
        let link = arena.measure_link().unwrap();
        let plan = program.solve(arena.plan_budget(), link).unwrap();
        Planned::new(arena, program, plan).unwrap()
    });
    let [first, second] = &mut plans;
    for _ in 0..3 {
        let ran = second.run(stream, || first.run(stream, pass));
        ran.unwrap().unwrap().unwrap();
    }
    for planned in &plans {
        let report = planned.report().unwrap();
        assert_eq!(report.passes[2].divergence, None);
        assert!(report.passes[2].in_bytes <= report.prediction.in_bytes);
    }
    for (at, result) in results.iter().enumerate() {
        let expected = 4.0 * (at as f32 + 1.0);
        assert_eq!(result.to_vec().unwrap(), vec![expected; SLOT]);
    }
}

/// Advice of both kinds is in the time of a transfer to the device, as far as there are read-only buffers.
#[test]
fn a_measured_link_has_the_time_of_advice() {
    const ADVICE: Duration = Duration::from_micros(80);
    let seconds = |role: Option<Role>| {
        let machine = Machine::with_advice(ADVICE);
        let arena = unified(&machine, 3);
        let of_role = |role| of_role(&machine, &arena, (1.0, 1), role);
        let mut homes: Vec<_> = role.into_iter().map(of_role).collect();
        let link = arena.measure_link().unwrap();
        assert_eq!(arena.stats().peak_bytes, arena.budget_bytes());
        homes.push(of_role(Role::ReadOnly));
        let all = homes.iter().map(|home| home.is_resident());
        assert!(all.eq(homes.iter().map(|_| false)));
        (machine.sim.is_some(), link.in_seconds(2 << 20))
    };
    let (is_simulated, moved) = seconds(Some(Role::Scratch));
    let advised = 2.0 * ADVICE.as_secs_f64();
    for role in [None, Some(Role::ReadOnly)] {
        let (_, copied) = seconds(role);
        let more = (copied - moved) / advised;
        assert!(!is_simulated || (0.99..1.1).contains(&more), "{more}");
    }
}
