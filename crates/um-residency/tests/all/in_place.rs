//! Buffers that a plan has a step read in their homes, over the link.

use crate::support::{MIB, Machine, SLOT};
use cuda_um_plan::{PlanBudget, Recipe};
use um_backend::kernels::Reduce;
use um_backend::sim::Gpu;
use um_backend::{Buffer, CudaError};
use um_residency::{
    Arena, Change, Error, Homed, InOut, Input, Link, Plan, Planned, Program, Role, cuda_um_plan,
    working_set,
};

/// The slots of the large buffer, and of plans.
const LARGE: usize = 16;
const SLOTS: u64 = LARGE as u64 + 1;
const BUDGET: PlanBudget = PlanBudget::new(SLOTS * 2 * MIB);

/// A large buffer that one step of a pass reads once, small ones, and the sums of all. Without the large one, they fit into the budget.
struct World {
    arena: Arena,
    large: Homed<f32>,
    small: Vec<Homed<f32>>,
    sums: Homed<f32>,
    reduce: Reduce,
    /// Dropped last, because it checks for leaks.
    machine: Machine,
}

impl World {
    fn new(machine: Machine) -> Self {
        Self::with(machine, LARGE)
    }

    /// With so many small buffers.
    fn with(machine: Machine, count: usize) -> Self {
        // The plans have a half of it.
        let arena = machine.arena(2 * SLOTS);
        let made = |name: String, len: usize, value: f32, role| {
            let mut buffer = Homed::from_slice(&arena, &vec![value; len], role).unwrap();
            buffer.set_name(&name);
            buffer
        };
        let mut large = made("large".into(), LARGE * SLOT, 1.0, Role::ReadOnly);
        large.set_read_once(true).unwrap();
        let small = (1..=count).map(|at| made(at.to_string(), SLOT, at as f32, Role::ReadOnly));
        Self {
            small: small.collect(),
            sums: made("sums".into(), count + 1, 0.0, Role::ReadWrite),
            reduce: Reduce::load(&machine.device).unwrap(),
            large,
            arena,
            machine,
        }
    }

    /// On the simulator, the sum of the large buffer takes longer than reading it over the link.
    fn slow() -> Self {
        Self::new(Machine::with_slow_sum::<1000>())
    }

    fn pass(&self) -> Result<(), Error> {
        for (at, buffer) in [&self.large].into_iter().chain(&self.small).enumerate() {
            self.step(buffer, at)?;
        }
        Ok(())
    }

    fn step(&self, buffer: &Homed<f32>, at: usize) -> Result<(), Error> {
        let stream = &self.machine.stream;
        let (from, mut sums) = working_set(stream, (Input(buffer), InOut(&self.sums)))?;
        let sum = sums.view_mut().slice(at..=at)?;
        let launched = self.reduce.sum(stream, &from, sum);
        launched.map_err(CudaError::from)?;
        Ok(())
    }

    /// Records a pass, and plans it.
    fn planned(&self, solve: impl FnOnce(&Program, Link) -> Plan) -> Planned {
        let link = self.arena.measure_link().unwrap();
        let (done, program) = self
            .arena
            .record(&self.machine.stream, || self.pass())
            .unwrap();
        done.unwrap();
        let plan = solve(&program, link);
        Planned::new(&self.arena, program, plan).unwrap()
    }

    /// With the solver.
    fn solved(&self) -> Planned {
        self.planned(|program, link| program.solve(BUDGET, link).unwrap())
    }

    /// With everything in place that may be.
    fn all_in_place(&self) -> Planned {
        self.planned(|program, link| program.recipe(Recipe::InPlace, BUDGET, link).unwrap())
    }

    fn run(&self, planned: &mut Planned) {
        let ran = planned.run(&self.machine.stream, || self.pass());
        ran.unwrap().unwrap();
    }

    fn check(&self, large: f32) {
        let found = self.sums.to_vec().unwrap();
        let small = (1..=self.small.len()).map(|at| (at * SLOT) as f32);
        let all = [large * (LARGE * SLOT) as f32].into_iter().chain(small);
        assert_eq!(found, all.collect::<Vec<_>>());
    }
}

const LARGE_BYTES: u64 = LARGE as u64 * 2 * MIB;

/// The bytes exactly, and the time.
#[test]
fn a_planned_pass_reads_in_place() {
    for slow in [true, false] {
        let world = match slow {
            true => World::slow(),
            // The simulator's copies do not slow kernels down that read over the link.
            false => World::with(Machine::new(Gpu::H200), 0),
        };
        if slow && world.machine.sim.is_none() {
            // A GPU adds faster than the link is.
            continue;
        }
        let mut planned = match slow {
            true => world.solved(),
            false => world.all_in_place(),
        };
        let before = world.arena.stats();
        for _ in 0..4 {
            world.run(&mut planned);
        }
        let report = planned.report().unwrap();
        println!("{report}");
        for pass in &report.passes[1..] {
            assert_eq!(pass.divergence, None);
            assert_eq!(pass.in_bytes, report.prediction.in_bytes);
            assert_eq!(pass.out_bytes, report.prediction.out_bytes);
            assert_eq!(pass.in_place_bytes, LARGE_BYTES, "{report}");
            let ratio = pass.time.as_secs_f64() / report.prediction.seconds;
            println!("{ratio}");
            let range = 0.98..=1.03;
            assert!(
                world.machine.sim.is_none() || range.contains(&ratio),
                "{ratio}: {report}"
            );
        }
        assert!(!world.large.is_resident());
        // The sums may come and go.
        assert_eq!(report.prediction.in_bytes / MIB, LARGE_BYTES / MIB);
        let stats = world.arena.stats();
        assert_eq!(stats.in_place_bytes, 4 * LARGE_BYTES);
        let moved = stats.in_bytes - before.in_bytes;
        assert!(
            !slow || moved <= LARGE_BYTES + MIB,
            "the small ones come once: {moved}"
        );
        assert!(stats.peak_bytes <= world.arena.budget_bytes());
        let reads = |change: Change| {
            let changes = report.changes.iter();
            let mut of = changes.filter(|one| &*one.buffer == "large" && one.change == change);
            of.next().map(|one| (one.step, one.slots.clone()))
        };
        assert_eq!(reads(Change::InPlace), Some((0, 0..0)));
        assert_eq!(reads(Change::In), None);
        let text = report.to_string();
        assert!(text.contains("read in place: 32.0 MiB"), "{text}");
        world.check(1.0);
    }
}

/// A guard that reads in place has no slots, and nothing waits for it but a write of the host.
#[test]
fn a_guard_in_place_holds_no_slots() {
    let mut world = World::new(Machine::new(Gpu::H200));
    let mut planned = world.all_in_place();
    planned.measure_stalls(true);
    // Other sets bring it in, to slots that the plan does not use: the last ones.
    let len = world.arena.budget_bytes() as usize / 4;
    let whole = Homed::<u32>::zeroed(&world.arena, len, Role::ReadOnly).unwrap();
    drop(working_set(&world.machine.stream, Input(&whole)).unwrap());
    drop(whole);
    let filler = Homed::<u32>::zeroed(&world.arena, (LARGE + 1) * SLOT, Role::ReadOnly).unwrap();
    drop(working_set(&world.machine.stream, Input(&filler)).unwrap());
    drop(working_set(&world.machine.stream, Input(&world.large)).unwrap());
    assert!(filler.is_resident() && world.large.is_resident());
    let pass = || {
        let set = (Input(&world.large), InOut(&world.sums), Input(&world.large));
        let (large, _, again) = working_set(&world.machine.stream, set)?;
        assert!(!world.large.is_resident());
        assert_eq!(large.len(), LARGE * SLOT);
        assert_eq!(again.to_vec()?, vec![1.0; LARGE * SLOT]);
        // A set with all slots but those of the sums, while the guard is held.
        std::thread::scope(|scope| {
            let other = || {
                let stream = world.machine.device.create_stream().unwrap();
                let all: Vec<_> = world.small.iter().map(Input).collect();
                working_set(&stream, (all, Input(&filler)))
                    .map(drop)
                    .unwrap();
            };
            scope.spawn(other).join().unwrap();
        });
        let launched = world.reduce.sum(
            &world.machine.stream,
            &large,
            &mut um_backend::cuda_um::DeviceBuffer::zeroed(&world.machine.device, 1)?,
        );
        launched.map_err(CudaError::from)?;
        drop((large, again));
        for (at, buffer) in world.small.iter().enumerate() {
            world.step(buffer, at + 1)?;
        }
        Ok::<(), Error>(())
    };
    planned.run(&world.machine.stream, pass).unwrap().unwrap();
    let report = planned.report().unwrap();
    assert_eq!(report.passes[0].divergence, None);
    assert_eq!(
        report.passes[0].in_place_bytes, LARGE_BYTES,
        "once for the step"
    );
    // The host writes after the kernel has read.
    world.run(&mut planned);
    world.large.fill(3.0).unwrap();
    world.check(1.0);
    world.run(&mut planned);
    world.check(3.0);
    // The buffer is dropped while the kernel may still read it.
    world.run(&mut planned);
    let World {
        machine,
        arena,
        large,
        small,
        sums,
        reduce,
    } = world;
    drop(large);
    assert_eq!(sums.to_vec().unwrap()[0], 3.0 * (LARGE * SLOT) as f32);
    drop((filler, small, sums, reduce, planned, arena));
    drop(machine);
}

/// A pass that leaves its plan transfers the buffer, as one without a plan.
#[test]
fn a_pass_that_leaves_its_plan_transfers() {
    let world = World::new(Machine::new(Gpu::H200));
    let mut planned = world.all_in_place();
    world.run(&mut planned);
    let extra = || {
        let set = (Input(&world.large), Input(&world.small[3]));
        let (large, _) = working_set(&world.machine.stream, set)?;
        assert!(world.large.is_resident());
        drop(large);
        world.pass()
    };
    planned.run(&world.machine.stream, extra).unwrap().unwrap();
    for _ in 0..3 {
        world.run(&mut planned);
    }
    let report = planned.report().unwrap();
    let in_place = |at: usize| report.passes[at].in_place_bytes;
    assert_eq!(
        [0, 1, 2, 3, 4].map(in_place),
        [1, 0, 1, 1, 1].map(|times| times * LARGE_BYTES)
    );
    assert_eq!(
        report.passes[1].divergence.as_ref().map(|left| left.step),
        Some(0)
    );
    assert!(report.passes[1].in_bytes >= LARGE_BYTES);
    assert_eq!(report.passes[4].in_bytes, report.prediction.in_bytes);
    world.check(1.0);
    let before = world.arena.stats();
    world.pass().unwrap();
    let after = world.arena.stats();
    assert_eq!(
        before.in_place_bytes, after.in_place_bytes,
        "there is no plan"
    );
    assert!(after.in_bytes - before.in_bytes >= LARGE_BYTES);
}

#[test]
fn only_homes_that_kernels_reach_are_read_in_place() {
    let machine = Machine::new(Gpu::H200);
    let arena = machine.arena(2);
    let refused = |buffer: &mut Homed<u32>| {
        buffer.set_name("weights");
        buffer.set_read_once(false).unwrap();
        buffer.set_read_once(true).unwrap_err().to_string()
    };
    let file = || tempfile::tempfile().unwrap();
    for (mut buffer, words) in [
        (
            Homed::zeroed(&arena, 4, Role::ReadWrite).unwrap(),
            "its role is `ReadWrite`: make it with `Role::ReadOnly`",
        ),
        (
            Homed::zeroed(&arena, 4, Role::Scratch).unwrap(),
            "its role is `Scratch`: make it with `Role::ReadOnly`",
        ),
        (
            Homed::from_file(&arena, file(), (0, 0), Role::ReadOnly).unwrap(),
            "its home is a file: read the file into pinned memory, and use `Homed::from_pinned`",
        ),
    ] {
        let expected = format!("buffer weights cannot be read in place, because {words}");
        assert_eq!(refused(&mut buffer), expected);
    }
    let allowed = [
        Homed::<u32>::zeroed(&arena, 4, Role::ReadOnly).unwrap(),
        Homed::from_vec(&arena, vec![1; 4], Role::ReadOnly).unwrap(),
        Homed::zeroed(&arena, 0, Role::ReadOnly).unwrap(),
    ];
    for mut buffer in allowed {
        buffer.set_read_once(true).unwrap();
    }
}

/// The program allows a place that the buffer has refused since the record.
#[test]
fn a_plan_in_place_needs_buffers_that_are_read_once() {
    let mut world = World::new(Machine::new(Gpu::H200));
    let mut planned = world.all_in_place();
    world.large.set_read_once(false).unwrap();
    let refused = planned
        .run(&world.machine.stream, || ())
        .unwrap_err()
        .to_string();
    assert_eq!(
        refused,
        "buffer large cannot be read in place, because it is not marked as read once: call `set_read_once(true)`, or record the \
         pass again"
    );
    world.large.set_read_once(true).unwrap();
    world.run(&mut planned);
    world.check(1.0);
}

/// A forgotten guard keeps the home, and no slots.
#[test]
fn a_forgotten_guard_keeps_the_home() {
    let mut world = World::new(Machine::new(Gpu::H200));
    let mut planned = world.all_in_place();
    let pass = || {
        let set = (Input(&world.large), InOut(&world.sums));
        let (large, _) = working_set(&world.machine.stream, set)?;
        std::mem::forget(large);
        Ok::<(), Error>(())
    };
    planned.run(&world.machine.stream, pass).unwrap().unwrap();
    let refused = world.large.fill(2.0).unwrap_err();
    assert!(matches!(refused, CudaError::Busy { .. }), "{refused}");
    world.run(&mut planned);
    world.check(1.0);
    let World {
        machine,
        arena,
        large,
        small,
        sums,
        ..
    } = world;
    drop(large);
    let len = arena.budget_bytes() as usize / 4;
    let whole = Homed::<u32>::zeroed(&arena, len, Role::ReadOnly).unwrap();
    drop(working_set(&machine.stream, Input(&whole)).unwrap());
    // The guard keeps the arena, so the machine is never free of leaks.
    drop((whole, small, sums, planned, arena));
    std::mem::forget(machine);
}

#[test]
fn a_set_that_also_writes_what_a_plan_reads_in_place_is_refused() {
    let world = World::slow();
    let mut planned = world.all_in_place();
    let ran = planned.run(&world.machine.stream, || {
        let stream = &world.machine.stream;
        let set = (Input(&world.large), InOut(&world.sums), InOut(&world.large));
        working_set(stream, set).map(drop)
    });
    let error = ran.unwrap().unwrap_err();
    assert!(matches!(error, Error::ReadOnly { .. }), "{error}");
}
