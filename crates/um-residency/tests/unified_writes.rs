//! Arenas of unified buffers that steps write: their pages move, and contents that are not needed are not transferred.

mod support;

use std::thread;

use support::{MIB, Machine, SLOT};
use um_backend::cuda_um::{DeviceBuffer, Oversubscription, UnifiedBuffer, UnifiedOptions};
use um_backend::kernels::{Reduce, Saxpy};
use um_backend::sim::{CudaVersion, Gpu};
use um_backend::{Buffer, CudaError};
use um_residency::{
    Arena, Budget, Change, Error, Homed, Link, Planned, Program, Read, Role, Update, Write,
    working_set,
};

fn unified(machine: &Machine, slots: u64) -> Arena {
    Arena::unified(&machine.device, Budget::Bytes(2 * slots * MIB)).unwrap()
}

/// A buffer of a slot.
fn homed(arena: &Arena, value: f32, role: Role) -> Homed<f32> {
    let options = UnifiedOptions::default().oversubscription(Oversubscription::Allowed);
    let below = arena.device().as_cuda_um();
    let home = UnifiedBuffer::from_slice_with(below, &vec![value; SLOT], options).unwrap();
    Homed::from_unified(arena, home, role).unwrap()
}

fn is_all(buffer: &Homed<f32>, value: f32) -> bool {
    buffer.to_vec().unwrap().iter().all(|&found| found == value)
}

/// Begins to count what the driver moves.
fn count(machine: &Machine) {
    machine.device.synchronize().unwrap();
    machine.sim.iter().for_each(|sim| sim.reset_counters());
}

/// Checks that the driver moved the bytes of the arena's counters, and never had more pages on the device than the budget.
fn check(machine: &Machine, arena: &Arena) {
    machine.device.synchronize().unwrap();
    let (stats, Some(sim)) = (arena.stats(), &machine.sim) else {
        return;
    };
    let counters = sim.counters();
    assert_eq!(
        [counters.bytes_to_device, counters.bytes_to_host],
        [stats.in_bytes, stats.out_bytes],
        "{counters:?}"
    );
    assert!(
        counters.peak_managed_bytes <= arena.budget_bytes(),
        "{counters:?}"
    );
    assert_eq!((counters.gpu_faults, counters.cpu_faults), (0, 0));
}

const VERSIONS: [CudaVersion; 5] = [
    CudaVersion::V11_8,
    CudaVersion::V12_2,
    CudaVersion::V12_9,
    CudaVersion::V13_0,
    CudaVersion::V13_4,
];

/// Whether the machine discards.
fn discards(machine: &Machine) -> bool {
    machine.device.as_cuda_um().runtime().version().major >= 13
}

#[test]
fn written_buffers_take_turns() {
    for cuda in VERSIONS {
        let machine = Machine::with_cuda(cuda);
        let (arena, stream) = (unified(&machine, 3), &machine.stream);
        let more = homed(&arena, 1.0, Role::ReadOnly);
        let all = [
            Role::ReadWrite,
            Role::Scratch,
            Role::ReadWrite,
            Role::ReadWrite,
        ];
        let all = all.map(|role| homed(&arena, 1.0, role));
        let saxpy = Saxpy::load(machine.device.as_cuda_um()).unwrap();
        count(&machine);
        let mut expected = [1.0; 4];
        for turn in 0..40 {
            let at = turn * turn * 7 % 5 % 4;
            if turn % 4 == 3 {
                let mut guard = working_set(stream, Write(&all[at])).unwrap();
                expected[at] = turn as f32;
                guard.view_mut().fill_on(expected[at], stream).unwrap();
            } else {
                let set = (Read(&more), Update(&all[at]));
                let (more, mut guard) = working_set(stream, set).unwrap();
                saxpy.launch(stream, 1.0, &more, &mut guard).unwrap();
                expected[at] += 1.0;
            }
        }
        check(&machine, &arena);
        assert!(arena.stats().out_bytes > 0 && arena.stats().peak_bytes == 6 * MIB);
        for (buffer, value) in all.iter().zip(expected) {
            assert!(is_all(buffer, value));
        }
    }
}

#[test]
fn a_write_comes_without_the_contents() {
    for cuda in VERSIONS {
        let machine = Machine::with_cuda(cuda);
        let (arena, stream) = (unified(&machine, 1), &machine.stream);
        let all = [1.0, 2.0].map(|value| homed(&arena, value, Role::ReadWrite));
        count(&machine);
        for round in 0..3 {
            for buffer in &all {
                let mut guard = working_set(stream, Write(buffer)).unwrap();
                guard.view_mut().fill_on(round as f32, stream).unwrap();
            }
        }
        check(&machine, &arena);
        let stats = arena.stats();
        let came = if discards(&machine) { 0 } else { 12 * MIB };
        assert_eq!((stats.in_bytes, stats.out_bytes), (came, 10 * MIB));
        assert!(all.iter().all(|buffer| is_all(buffer, 2.0)));
    }
}

/// The pages of a measurement are not those of a buffer, also where nothing is discarded.
#[test]
fn a_measurement_of_the_link_counts_no_bytes() {
    for cuda in VERSIONS {
        let machine = Machine::with_cuda(cuda);
        let arena = unified(&machine, 8);
        arena.measure_link().unwrap();
        let stats = arena.stats();
        assert_eq!((stats.in_bytes, stats.out_bytes), (0, 0));
    }
}

/// Runs passes by a plan.
fn planned(
    (machine, arena): (&Machine, &Arena),
    passes: usize,
    pass: &dyn Fn() -> Result<(), Error>,
) -> Planned {
    let stream = &machine.stream;
    let (done, program): (_, Program) = arena.record(stream, pass).unwrap();
    done.unwrap();
    let plan = program.solve(arena.plan_budget(), Link::pcie5()).unwrap();
    let mut planned = Planned::new(arena, program, plan).unwrap();
    for _ in 0..passes {
        planned.run(stream, pass).unwrap().unwrap();
    }
    planned
}

/// A scratch buffer whose contents no later step reads leaves without them; the host may not read them.
#[test]
fn dead_contents_are_not_transferred() {
    for cuda in VERSIONS {
        let machine = Machine::with_cuda(cuda);
        let (arena, stream) = (unified(&machine, 2), &machine.stream);
        let results = [0.0, 0.0].map(|value| homed(&arena, value, Role::ReadWrite));
        let scratch = homed(&arena, 5.0, Role::Scratch);
        let saxpy = Saxpy::load(machine.device.as_cuda_um()).unwrap();
        let pass = || {
            for result in &results {
                let mut guard = working_set(stream, Write(&scratch))?;
                guard.view_mut().fill_on(1.0, stream)?;
                drop(guard);
                let (from, mut to) = working_set(stream, (Read(&scratch), Update(result)))?;
                let launched = saxpy.launch(stream, 1.0, &from, &mut to);
                launched.map_err(CudaError::from)?;
            }
            let _both = working_set(stream, (Update(&results[0]), Update(&results[1])))?;
            Ok(())
        };
        count(&machine);
        let planned = planned((&machine, &arena), 4, &pass);
        check(&machine, &arena);
        let report = planned.report().unwrap();
        for pass in &report.passes[1..] {
            let bytes = [pass.in_bytes, pass.out_bytes];
            let planned = [report.prediction.in_bytes, report.prediction.out_bytes];
            assert!(!discards(&machine) || bytes == planned, "{report}");
            assert_eq!(pass.divergence, None);
        }
        let dropped = |change| {
            let changes = report.changes.iter();
            changes
                .filter(|one| &*one.buffer == "buffer 3" && one.change == change)
                .count()
        };
        assert!(dropped(Change::Drop) > 0, "{report}");
        assert_eq!(dropped(Change::Out) > 0, !discards(&machine), "{report}");
        let refused = scratch.to_vec().unwrap_err();
        assert!(refused.to_string().contains("are gone"), "{refused}");
        assert!(results.iter().all(|result| is_all(result, 5.0)));
    }
}

/// The plan takes the place of a step that writes everything early. The contents stay until that step comes.
#[test]
fn a_pass_that_reads_what_the_plan_overwrites_finds_it() {
    let machine = Machine::new(Gpu::H200);
    let (arena, stream) = (unified(&machine, 3), &machine.stream);
    let all = [1.0, 2.0, 3.0, 4.0].map(|value| homed(&arena, value, Role::ReadWrite));
    let pass = || {
        for pair in [[0, 1], [1, 2], [2, 3], [3, 0]] {
            let set = pair.map(|at| Write(&all[at]));
            for (mut guard, at) in working_set(stream, set)?.into_iter().zip(pair) {
                guard.view_mut().fill_on(at as f32, stream)?;
            }
        }
        Ok(())
    };
    let mut planned = planned((&machine, &arena), 2, &pass);
    let other = || {
        for (at, buffer) in all.iter().enumerate() {
            let guard = working_set(stream, Read(buffer))?;
            assert_eq!(guard.view().read_one(9)?, at as f32);
        }
        Ok::<(), Error>(())
    };
    planned.run(stream, other).unwrap().unwrap();
    for (at, buffer) in all.iter().enumerate() {
        assert!(is_all(buffer, at as f32));
    }
    planned.run(stream, pass).unwrap().unwrap();
    let report = planned.report().unwrap();
    let divergent: Vec<_> = report
        .passes
        .iter()
        .map(|pass| pass.divergence.is_some())
        .collect();
    assert_eq!(divergent, [false, false, true, false]);
}

/// A kernel that reads on another stream keeps the pages until it is done.
#[test]
fn pages_leave_after_the_kernels_that_read_them() {
    let machine = Machine::with_slow_sum::<2000>();
    let arena = unified(&machine, 2);
    let options = UnifiedOptions::default().oversubscription(Oversubscription::Allowed);
    let below = machine.device.as_cuda_um();
    let other = below.stream().unwrap();
    let large = || {
        let home = UnifiedBuffer::from_slice_with(below, &vec![1.0f32; 2 * SLOT], options).unwrap();
        Homed::from_unified(&arena, home, Role::ReadWrite).unwrap()
    };
    let (first, next) = (large(), large());
    let mut sum = DeviceBuffer::<f32>::zeroed(below, 1).unwrap();
    let reduce = Reduce::load(below).unwrap();
    reduce
        .sum(
            &other,
            &DeviceBuffer::<f32>::zeroed(below, 2 * SLOT).unwrap(),
            &mut sum,
        )
        .unwrap();
    count(&machine);
    for _ in 0..2 {
        let guard = working_set(&other, Read(&first)).unwrap();
        reduce.sum(&other, &guard, &mut sum).unwrap();
        drop(guard);
        let mut guard = working_set(&machine.stream, Update(&next)).unwrap();
        guard.view_mut().fill_on(3.0, &machine.stream).unwrap();
    }
    check(&machine, &arena);
    assert_eq!(sum.to_vec().unwrap(), [2.0 * SLOT as f32]);
}

#[test]
fn the_host_reads_and_writes_what_moved() {
    let machine = Machine::new(Gpu::H200);
    let (arena, stream) = (unified(&machine, 1), &machine.stream);
    let mut buffer = homed(&arena, 1.0, Role::ReadWrite);
    count(&machine);
    let guard = working_set(stream, Read(&buffer)).unwrap();
    assert_eq!(buffer.read_one(5).unwrap(), 1.0);
    assert_eq!(guard.to_vec().unwrap(), vec![1.0; SLOT]);
    drop(guard);
    working_set(stream, Update(&buffer))
        .unwrap()
        .view_mut()
        .fill_on(2.0, stream)
        .unwrap();
    buffer.write_back().unwrap();
    assert!(
        is_all(&buffer, 2.0) && buffer.is_resident(),
        "the host reads it where it is"
    );
    check(&machine, &arena);
    buffer.copy_from_host_at(3, &[7.0]).unwrap();
    assert!(!buffer.is_resident());
    assert_eq!(
        working_set(stream, Read(&buffer))
            .unwrap()
            .to_vec()
            .unwrap()[2..5],
        [2.0, 7.0, 2.0]
    );
    let mut empty = buffer.clone_empty(10).unwrap();
    empty.fill(4.0).unwrap();
    assert_eq!(empty.to_vec().unwrap(), [4.0; 10]);
    let guard = working_set(stream, Update(&buffer)).unwrap();
    let refused = buffer.to_vec().unwrap_err();
    assert!(
        matches!(refused, CudaError::WouldDeadlock { .. }),
        "{refused}"
    );
    std::mem::forget(guard);
    let refused = buffer.fill(1.0).unwrap_err();
    assert!(
        matches!(refused, CudaError::StorageInUse { .. }),
        "{refused}"
    );
    drop((buffer, empty, arena));
    // The forgotten guard keeps the memory, so the machine is never free of leaks.
    std::mem::forget(machine);
}

/// Threads write and read shared buffers while the host reads them where they are.
#[test]
fn the_host_reads_beside_threads_that_write() {
    let machine = Machine::new(Gpu::H200);
    let arena = unified(&machine, 3);
    let roles = [
        Role::ReadWrite,
        Role::Scratch,
        Role::ReadWrite,
        Role::ReadWrite,
        Role::ReadOnly,
    ];
    let all = roles.map(|role| homed(&arena, 1.0, role));
    count(&machine);
    let play = |seed: usize| {
        let stream = machine.device.as_cuda_um().stream().unwrap();
        for turn in 0..40 {
            let at = (seed * 7919 + turn * turn * 31) % 5;
            match (turn + seed) % 4 {
                0 | 1 if at < 4 => {
                    let set = (Read(&all[4]), Write(&all[at]));
                    let (_beside, mut guard) = working_set(&stream, set).unwrap();
                    guard.view_mut().fill_on(turn as f32, &stream).unwrap();
                }
                2 if at < 4 => {
                    let guard = working_set(&stream, Update(&all[at])).unwrap();
                    let found = guard.to_vec().unwrap();
                    assert!(found.iter().all(|value| *value == found[0]));
                }
                _ => {
                    let found = all[at].to_vec().unwrap();
                    assert!(found.iter().all(|value| *value == found[0]));
                }
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
    check(&machine, &arena);
}
