//! Working sets: contents, order, budgets, guards, and threads.

mod support;

use std::fs::File;
#[cfg(unix)]
use std::fs::OpenOptions;
#[cfg(unix)]
use std::io::ErrorKind;
use std::io::{Read as _, Write as _};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use cuda_um_testkit::{calls, watchdog::watch};
use support::{MIB, Machine, SLOT, each_machine};
use um_backend::cuda_um::PinnedBuffer;
use um_backend::sim::{Builder, Gpu};
use um_backend::{Buffer, CudaError, kernels::Saxpy};
use um_residency::{Arena, Budget, Error, Homed, InOut, Input, Output, Role, working_set};

fn homed(arena: &Arena, value: u32, slots: usize, role: Role) -> Homed<u32> {
    Homed::from_slice(arena, &vec![value; slots * SLOT], role).unwrap()
}

fn holds(buffer: &Homed<u32>, value: u32) -> bool {
    buffer
        .to_vec()
        .unwrap()
        .iter()
        .all(|&element| element == value)
}

#[test]
fn contents_survive_as_buffers_take_turns() {
    each_machine(|machine| {
        let (arena, stream) = (machine.arena(4), &machine.stream);
        let mut buffers: Vec<_> = (0..7)
            .map(|value| homed(&arena, value, 1 + value as usize % 2, Role::ReadWrite))
            .collect();
        for round in 0..3 {
            for buffer in &buffers {
                let mut guard = working_set(stream, InOut(buffer)).unwrap();
                let first = guard.to_vec().unwrap()[SLOT / 2];
                guard.view_mut().fill_on(first + 10, stream).unwrap();
            }
            assert!(
                arena.stats().resident_bytes <= arena.budget_bytes(),
                "{round}"
            );
        }
        for (value, buffer) in buffers.iter().enumerate() {
            assert!(holds(buffer, value as u32 + 30), "{value}");
        }
        buffers[0].fill(3).unwrap();
        assert_eq!(
            working_set(stream, Input(&buffers[0]))
                .unwrap()
                .to_vec()
                .unwrap(),
            vec![3; SLOT]
        );
        assert_eq!(arena.stats().peak_bytes, arena.budget_bytes());
    });
}

/// Transfers wait for the work on the slots, and the step's kernels for the transfers, on the device: the host never waits.
#[test]
fn the_host_does_not_wait() {
    let machine = Machine::new(Gpu::H200);
    let Some(sim) = &machine.sim else { return };
    let (arena, stream) = (machine.arena(2), &machine.stream);
    let input: Vec<_> = (0..6)
        .map(|value| homed(&arena, value, 1, Role::ReadOnly))
        .collect();
    let sums: Vec<_> = (0..6)
        .map(|_| homed(&arena, 99, 1, Role::ReadWrite))
        .collect();
    machine.device.synchronize().unwrap();
    let paused = sim.pause();
    for (input, sum) in input.iter().zip(&sums) {
        let (from, mut to) = working_set(stream, (Input(input), Output(sum))).unwrap();
        stream.copy(&from.view(), &mut to.view_mut()).unwrap();
    }
    assert_eq!(
        calls(sim, "cudaEventSynchronize") + calls(sim, "cudaStreamSynchronize"),
        0
    );
    drop(paused);
    for (value, sum) in sums.iter().enumerate() {
        assert!(holds(sum, value as u32), "{value}");
    }
}

#[test]
fn clean_contents_are_dropped_and_written_ones_go_home() {
    let machine = Machine::new(Gpu::H200);
    let (arena, stream) = (machine.arena(1), &machine.stream);
    let (clean, dirty) = (
        homed(&arena, 1, 1, Role::ReadOnly),
        homed(&arena, 2, 1, Role::ReadWrite),
    );
    let scratch = Homed::<u32>::zeroed(&arena, SLOT, Role::Scratch).unwrap();
    drop(working_set(stream, Input(&clean)).unwrap());
    drop(working_set(stream, InOut(&dirty)).unwrap());
    assert_eq!(
        (arena.stats().in_bytes, arena.stats().out_bytes),
        (4 * MIB, 0)
    );
    drop(working_set(stream, Input(&clean)).unwrap());
    assert_eq!(
        (arena.stats().in_bytes, arena.stats().out_bytes),
        (6 * MIB, 2 * MIB)
    );
    drop(working_set(stream, Output(&dirty)).unwrap());
    assert_eq!(
        arena.stats().in_bytes,
        6 * MIB,
        "a write needs no old contents"
    );
    let guard = working_set(stream, Input(&scratch)).unwrap();
    assert_eq!(
        guard.to_vec().unwrap(),
        vec![0; SLOT],
        "a new buffer holds zeros"
    );
    assert_eq!(arena.stats().in_bytes, 6 * MIB, "which are not transferred");
}

#[test]
fn a_set_beyond_the_budget_is_refused_before_any_transfer() {
    each_machine(|machine| {
        let (arena, stream) = (machine.arena(3), &machine.stream);
        let (a, b) = (
            homed(&arena, 1, 2, Role::ReadOnly),
            homed(&arena, 2, 2, Role::ReadWrite),
        );
        let refused = working_set(stream, (Input(&a), Input(&b))).unwrap_err();
        assert!(
            matches!(refused, Error::OverBudget { needed_bytes, budget_bytes } if (needed_bytes, budget_bytes) == (8 * MIB, 6 * MIB)),
            "{refused}"
        );
        assert_eq!((arena.stats().in_bytes, arena.stats().misses), (0, 0));
        let text = refused.to_string();
        assert!(
            text.contains("8388608") && text.contains("6291456"),
            "{text}"
        );
        let refused = working_set(stream, Output(&a)).unwrap_err();
        assert!(matches!(refused, Error::ReadOnly { .. }), "{refused}");
        let refused = working_set(stream, (Input(&b), InOut(&b))).unwrap_err();
        assert!(matches!(refused, Error::Twice { .. }), "{refused}");
        let (one, two) = working_set(stream, (Input(&b), Input(&b))).unwrap();
        assert_eq!(one.len() + two.len(), 4 * SLOT);
        let other = homed(&machine.arena(1), 1, 1, Role::ReadOnly);
        let refused = working_set(stream, [Input(&a), Input(&other)]).unwrap_err();
        assert!(matches!(refused, Error::Arenas { .. }), "{refused}");
        let none: Vec<Input<'_, u32>> = Vec::new();
        assert!(matches!(
            working_set(stream, none).unwrap_err(),
            Error::Arenas { .. }
        ));
    });
}

#[test]
fn budgets_that_cannot_be() {
    let machine = Machine::new(Gpu::H200);
    for budget in [
        Budget::Bytes(MIB),
        Budget::ShareOfFree(0.0),
        Budget::ShareOfFree(1.5),
        Budget::ShareOfFree(f64::NAN),
    ] {
        let refused = Arena::new(&machine.device, budget).unwrap_err();
        assert!(matches!(refused, Error::Budget { .. }), "{refused}");
    }
    let refused = Arena::new(&machine.device, Budget::Bytes(1 << 50)).unwrap_err();
    assert!(
        matches!(refused, Error::Cuda(CudaError::OutOfMemory { .. })),
        "{refused}"
    );
    let free = machine.device.memory_info().unwrap().free_bytes as u64;
    let part = Arena::new(&machine.device, Budget::ShareOfFree(0.001)).unwrap();
    let expected = free / 1000;
    assert!(part.budget_bytes() <= expected && part.budget_bytes() + 2 * MIB > expected);
}

/// A set that fits the budget is granted although its buffers are in each other's way.
#[test]
fn a_set_is_packed_if_its_own_buffers_are_in_the_way() {
    let machine = Machine::new(Gpu::H200);
    let (arena, stream) = (machine.arena(4), &machine.stream);
    let small: Vec<_> = (0..4)
        .map(|value| homed(&arena, value, 1, Role::ReadWrite))
        .collect();
    let large = homed(&arena, 9, 2, Role::ReadWrite);
    for buffer in &small {
        let mut guard = working_set(stream, InOut(buffer)).unwrap();
        let value = guard.to_vec().unwrap()[0];
        guard.view_mut().fill_on(value + 20, stream).unwrap();
    }
    let (a, b, c) =
        working_set(stream, (Input(&small[1]), Input(&large), Input(&small[3]))).unwrap();
    assert_eq!(
        [
            a.to_vec().unwrap()[7],
            b.to_vec().unwrap()[7],
            c.to_vec().unwrap()[7]
        ],
        [21, 9, 23]
    );
    drop((a, b, c));
    assert!((0..4).all(|value| holds(&small[value as usize], value + 20)));
}

#[test]
fn guards_are_arguments_of_kernels() {
    let machine = Machine::new(Gpu::H200);
    let (arena, stream) = (machine.arena(4), &machine.stream);
    let saxpy = Saxpy::load(&machine.device).unwrap();
    let x = Homed::from_slice(&arena, &vec![2.0f32; SLOT], Role::ReadOnly).unwrap();
    let y = Homed::from_slice(&arena, &vec![1.0f32; SLOT], Role::ReadWrite).unwrap();
    let (from, mut to) = working_set(stream, (Input(&x), InOut(&y))).unwrap();
    saxpy.launch(stream, 3.0, &from, &mut to).unwrap();
    drop((from, to));
    assert_eq!(y.to_vec().unwrap(), vec![7.0; SLOT]);
}

#[test]
fn the_least_recently_used_leaves_unless_its_use_is_announced() {
    let machine = Machine::new(Gpu::H200);
    let (arena, stream) = (machine.arena(2), &machine.stream);
    let [a, b, c] = [1, 2, 3].map(|value| homed(&arena, value, 1, Role::ReadOnly));
    for buffer in [&a, &b, &c] {
        drop(working_set(stream, Input(buffer)).unwrap());
    }
    assert_eq!(
        [&a, &b, &c].map(|buffer| buffer.is_resident()),
        [false, true, true]
    );
    arena.announce(&Input(&a)).unwrap();
    arena.announce(&Input(&b)).unwrap();
    drop(working_set(stream, Input(&a)).unwrap());
    assert_eq!(
        [&a, &b, &c].map(|buffer| buffer.is_resident()),
        [true, true, false]
    );
    // An announced buffer comes before its set asks for it, if there is room.
    let before = arena.stats().misses;
    arena.announce(&Input(&c)).unwrap();
    drop(working_set(stream, Input(&b)).unwrap());
    drop(working_set(stream, Input(&c)).unwrap());
    assert_eq!(arena.stats().misses, before, "it was there");
    arena.forget_announced();
}

#[test]
fn a_thread_never_waits_for_itself() {
    let machine = Machine::new(Gpu::H200);
    let (arena, stream) = (machine.arena(2), &machine.stream);
    let [a, b, c] = [1, 2, 3].map(|value| homed(&arena, value, 1, Role::ReadWrite));
    let (first, second) = (
        working_set(stream, Input(&a)).unwrap(),
        working_set(stream, InOut(&b)).unwrap(),
    );
    for refused in [
        working_set(stream, Input(&c)).map(drop),
        working_set(stream, InOut(&a)).map(drop),
    ] {
        let refused = refused.unwrap_err();
        assert!(
            matches!(refused, Error::WouldDeadlock { held: 2, .. }),
            "{refused}"
        );
    }
    assert!(matches!(
        b.to_vec().unwrap_err(),
        CudaError::WouldDeadlock { .. }
    ));
    assert_eq!(a.to_vec().unwrap(), vec![1; SLOT], "which is only read");
    drop(first);
    drop(working_set(stream, Input(&c)).unwrap());
    drop(second);
}

#[test]
fn a_thread_waits_for_the_guards_of_another() {
    let machine = Machine::new(Gpu::H200);
    let (arena, stream) = (machine.arena(2), &machine.stream);
    let (a, b) = (
        homed(&arena, 1, 2, Role::ReadWrite),
        homed(&arena, 2, 1, Role::ReadWrite),
    );
    let (done, is_done) = mpsc::channel();
    let mut guard = working_set(stream, InOut(&a)).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let guard = working_set(stream, Input(&b)).unwrap();
            done.send(guard.to_vec().unwrap()[0]).unwrap();
        });
        assert!(is_done.recv_timeout(Duration::from_millis(50)).is_err());
        guard.view_mut().fill_on(7, stream).unwrap();
        drop(guard);
        assert_eq!(is_done.recv().unwrap(), 2);
    });
    assert!(holds(&a, 7));
    assert_eq!(arena.stats().waits, 1);
}

/// Safe code can forget a guard: its slots are lost, and nothing else breaks.
#[test]
fn a_forgotten_guard_keeps_its_slots() {
    let _watchdog = watch();
    let machine = Machine::new(Gpu::H200);
    let (arena, stream) = (machine.arena(3), machine.stream.clone());
    let stream = &stream;
    let (mut a, b) = (
        homed(&arena, 1, 1, Role::ReadWrite),
        homed(&arena, 2, 2, Role::ReadWrite),
    );
    std::mem::forget(working_set(stream, InOut(&a)).unwrap());
    assert!(matches!(a.fill(3).unwrap_err(), CudaError::Busy { .. }));
    let whole = homed(&arena, 5, 3, Role::ReadOnly);
    let refused = || {
        let refused = working_set(stream, Input(&whole)).map(drop).unwrap_err();
        assert!(
            matches!(refused, Error::OverBudget { needed_bytes, budget_bytes } if (needed_bytes, budget_bytes) == (6 * MIB, 4 * MIB)),
            "{refused}"
        );
    };
    thread::scope(|scope| {
        // Waits for the guard, until the slot is known to be lost.
        scope.spawn(refused);
        while arena.stats().waits == 0 {
            thread::yield_now();
        }
        drop(a);
    });
    refused();
    let small = homed(&arena, 6, 1, Role::ReadOnly);
    let guard = working_set(stream, Input(&small)).unwrap();
    // At once, although this thread has a guard.
    thread::scope(|scope| {
        scope.spawn(refused);
    });
    drop(guard);
    drop(working_set(stream, InOut(&b)).unwrap());
    thread::scope(|scope| {
        scope.spawn(|| drop(working_set(stream, InOut(&b)).unwrap()));
    });
    assert!(holds(&b, 2));
    // The guard keeps the arena, so the machine is never free of leaks.
    drop((b, whole, small, arena));
    std::mem::forget(machine);
}

#[test]
fn a_file_is_read_and_written_back() {
    each_machine(|machine| {
        let (arena, stream) = (machine.arena(2), &machine.stream);
        let elements: Vec<u32> = (0..SLOT as u32 + 5).collect();
        let path = tempfile::NamedTempFile::new().unwrap();
        path.as_file()
            .write_all(bytemuck::cast_slice(&elements))
            .unwrap();
        let open = || {
            File::options()
                .read(true)
                .write(true)
                .open(path.path())
                .unwrap()
        };
        let from = Homed::<u32>::from_file(&arena, open(), (4, SLOT), Role::ReadWrite).unwrap();
        let guard = working_set(stream, Input(&from)).unwrap();
        assert_eq!(guard.to_vec().unwrap(), elements[1..=SLOT]);
        drop(guard);
        working_set(stream, InOut(&from))
            .unwrap()
            .view_mut()
            .fill_on(8, stream)
            .unwrap();
        from.write_back().unwrap();
        let mut bytes = Vec::new();
        open().read_to_end(&mut bytes).unwrap();
        let found: Vec<u32> = bytemuck::pod_collect_to_vec(&bytes);
        assert_eq!(
            (found[0], found[1], found[SLOT], found[SLOT + 1]),
            (0, 8, 8, SLOT as u32 + 1)
        );
        let refused =
            Homed::<u32>::from_file(&arena, open(), (8, SLOT + 4), Role::ReadOnly).unwrap_err();
        assert!(matches!(refused, CudaError::Io { .. }), "{refused}");
    });
}

/// A home is a regular file that transfers can read, and write at their place.
#[test]
#[cfg(unix)]
fn a_file_that_is_opened_in_another_way_is_no_home() {
    let machine = Machine::new(Gpu::H200);
    let arena = machine.arena(1);
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(2 * MIB).unwrap();
    let made = |file: File, role| Homed::<u32>::from_file(&arena, file, (0, 4), role);
    let refused = |file: File, role, because: &str| {
        let refused = made(file, role).unwrap_err();
        assert!(refused.to_string().contains(because), "{refused}");
        assert!(
            matches!(&refused, CudaError::Io { source, .. } if source.kind() == ErrorKind::InvalidInput),
            "{refused}"
        );
    };
    let open = |options: &mut OpenOptions| options.open(file.path()).unwrap();
    for role in [Role::ReadOnly, Role::ReadWrite, Role::Scratch] {
        let append = open(OpenOptions::new().read(true).append(true));
        refused(append, role, "`append(true)`");
        let write_only = open(OpenOptions::new().write(true));
        refused(write_only, role, "not open for reading");
        refused(File::open("/").unwrap(), role, "a regular file");
        refused(File::open("/dev/zero").unwrap(), role, "a regular file");
        made(open(OpenOptions::new().read(true).write(true)), role).unwrap();
        match role {
            Role::ReadOnly => drop(made(open(OpenOptions::new().read(true)), role).unwrap()),
            _ => refused(
                open(OpenOptions::new().read(true)),
                role,
                "not open for writing",
            ),
        }
    }
}

/// The host writes no part of a file that became too short: zeros would take the place of the other elements.
#[test]
fn a_part_is_not_written_to_a_file_that_became_shorter() {
    let machine = Machine::new(Gpu::H200);
    let arena = machine.arena(1);
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(2 * MIB).unwrap();
    let home = file.reopen().unwrap();
    let mut buffer = Homed::<u32>::from_file(&arena, home, (0, SLOT), Role::ReadWrite).unwrap();
    file.as_file().set_len(MIB).unwrap();
    let refused = buffer.copy_from_host_at(SLOT - 1, &[9]).unwrap_err();
    assert!(refused.to_string().contains("bytes now"), "{refused}");
    assert_eq!(file.as_file().metadata().unwrap().len(), MIB);
}

/// A file that became too short fails its set, which then holds nothing.
#[test]
fn a_failed_read_leaves_the_arena_as_it_was() {
    let machine = Machine::new(Gpu::H200);
    let (arena, stream) = (machine.arena(2), &machine.stream);
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(2 * MIB).unwrap();
    let from =
        Homed::<u32>::from_file(&arena, file.reopen().unwrap(), (0, SLOT), Role::ReadOnly).unwrap();
    let other = homed(&arena, 4, 1, Role::ReadWrite);
    file.as_file().set_len(MIB).unwrap();
    let refused = working_set(stream, (InOut(&other), Input(&from))).unwrap_err();
    assert!(
        matches!(refused, Error::Cuda(CudaError::Io { .. })),
        "{refused}"
    );
    assert!(!from.is_resident());
    // The old elements were not transferred, and no work wrote new ones.
    drop(working_set(stream, InOut(&other)).unwrap());
    let scratch = homed(&arena, 5, 1, Role::Scratch);
    for buffer in [&other, &scratch] {
        let away = homed(&arena, 9, 2, Role::ReadOnly);
        drop(working_set(stream, Input(&away)).unwrap());
        working_set(stream, (Output(buffer), Input(&from))).unwrap_err();
    }
    assert!(holds(&other, 4) && holds(&scratch, 5));
    let elements = working_set(stream, Input(&scratch)).unwrap().to_vec();
    assert_eq!(elements.unwrap(), vec![5; SLOT]);
    file.as_file().set_len(2 * MIB).unwrap();
    let (_, guard) = working_set(stream, (InOut(&other), Input(&from))).unwrap();
    assert_eq!(guard.to_vec().unwrap().len(), SLOT);
    drop(guard);
    assert!(holds(&other, 4));
}

/// An empty buffer has no slot.
#[test]
fn an_empty_buffer_takes_no_slot_from_others() {
    let machine = Machine::new(Gpu::H200);
    let (arena, stream) = (machine.arena(1), &machine.stream);
    let [a, b] = [1, 2].map(|value| homed(&arena, value, 1, Role::ReadOnly));
    let empty = Homed::<u32>::zeroed(&arena, 0, Role::ReadWrite).unwrap();
    drop(working_set(stream, Input(&a)).unwrap());
    drop(working_set(stream, Input(&empty)).unwrap());
    drop(empty);
    drop(working_set(stream, Input(&b)).unwrap());
    assert!(holds(&a, 1) && holds(&b, 2));
}

/// Two threads with two arenas would wait for each other.
#[test]
fn a_thread_with_a_guard_does_not_wait_in_another_arena() {
    let machine = Machine::new(Gpu::H200);
    let (here, there) = (machine.arena(1), machine.arena(1));
    let (a, b) = (
        homed(&here, 1, 1, Role::ReadWrite),
        homed(&there, 2, 1, Role::ReadWrite),
    );
    let (first, is_first) = mpsc::channel();
    let (done, is_done) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let (b_there, stream) = (&b, &machine.stream);
        scope.spawn(move || {
            let guard = working_set(stream, InOut(b_there)).unwrap();
            first.send(()).unwrap();
            is_done.recv().unwrap();
            drop(guard);
        });
        is_first.recv().unwrap();
        let guard = working_set(&machine.stream, InOut(&a)).unwrap();
        let refused = working_set(&machine.stream, InOut(&b)).unwrap_err();
        assert!(
            matches!(refused, Error::WouldDeadlock { held: 1, .. }),
            "{refused}"
        );
        done.send(()).unwrap();
        drop(guard);
    });
}

#[test]
fn announcements_are_of_buffers_of_the_arena() {
    let machine = Machine::new(Gpu::H200);
    let (arena, other) = (machine.arena(1), machine.arena(1));
    let buffer = homed(&other, 1, 1, Role::ReadOnly);
    let refused = arena.announce(&Input(&buffer)).unwrap_err();
    assert!(matches!(refused, Error::Arenas { .. }), "{refused}");
    other.announce(&Input(&buffer)).unwrap();
}

/// A write of the host that fails loses no contents: those of the arena are written back later.
#[test]
#[cfg(target_os = "linux")]
fn a_failed_write_of_the_host_keeps_the_arenas_contents() {
    let machine = Machine::new(Gpu::H200);
    let (arena, stream) = (machine.arena(2), &machine.stream);
    // Its writes fail from now on.
    let sealing = rustix::fs::MemfdFlags::ALLOW_SEALING;
    let file = File::from(rustix::fs::memfd_create("home", sealing).unwrap());
    file.set_len(2 * MIB).unwrap();
    rustix::fs::fcntl_add_seals(&file, rustix::fs::SealFlags::WRITE).unwrap();
    let mut buffer = Homed::<u32>::from_file(&arena, file, (0, SLOT), Role::ReadWrite).unwrap();
    let mut guard = working_set(stream, InOut(&buffer)).unwrap();
    guard.view_mut().fill_on(8, stream).unwrap();
    drop(guard);
    let refused = buffer.copy_from_host(&vec![9; SLOT]).unwrap_err();
    assert!(matches!(refused, CudaError::Io { .. }), "{refused}");
    assert!(buffer.copy_from_host_at(3, &[9]).is_err());
    let guard = working_set(stream, Input(&buffer)).unwrap();
    assert_eq!(guard.to_vec().unwrap(), vec![8; SLOT]);
    drop(guard);
    // It cannot leave, and the set that needs its slots changes nothing.
    let large = homed(&arena, 5, 2, Role::ReadOnly);
    let refused = working_set(stream, Input(&large)).unwrap_err();
    assert!(
        matches!(refused, Error::Cuda(CudaError::Io { .. })),
        "{refused}"
    );
    let guard = working_set(stream, Input(&buffer)).unwrap();
    assert_eq!(guard.to_vec().unwrap(), vec![8; SLOT]);
}

/// The measurement takes slots as a set does, also the only one, and its buffers have no number.
#[test]
fn the_link_of_any_arena_is_measured() {
    let machine = Machine::new(Gpu::H200);
    let stream = &machine.stream;
    for slots in [1, 2, 3, 20] {
        let arena = machine.arena(slots);
        let all = [1, 2, 3].map(|value| homed(&arena, value, 1, Role::ReadWrite));
        for buffer in &all {
            let mut guard = working_set(stream, InOut(buffer)).unwrap();
            guard.view_mut().fill_on(7, stream).unwrap();
        }
        let link = arena.measure_link().unwrap();
        assert!(link.in_bytes_per_second > 1e9, "{link:?}");
        assert!(slots > 1 || link.both_ways == 1.0, "{link:?}");
        assert!(all.iter().all(|buffer| holds(buffer, 7)), "{slots}");
        let guard = working_set(stream, Input(&all[0])).unwrap();
        match arena.measure_link() {
            Ok(_) => assert!(slots > 2),
            Err(refused) => assert!(
                matches!(
                    refused,
                    Error::WouldDeadlock {
                        call: "measure_link",
                        held: 1
                    }
                ),
                "{refused}"
            ),
        }
        drop(guard);
    }
}

#[test]
fn an_empty_file_is_a_home() {
    let machine = Machine::new(Gpu::H200);
    let (arena, stream) = (machine.arena(1), &machine.stream);
    let file = tempfile::tempfile().unwrap();
    let empty = Homed::<u32>::from_file(&arena, file, (0, 0), Role::ReadWrite).unwrap();
    assert!(working_set(stream, InOut(&empty)).unwrap().is_empty());
    drop(working_set(stream, Input(&empty)).unwrap());
    assert!(empty.to_vec().unwrap().is_empty());
}

#[test]
fn a_stream_of_another_runtime_is_refused() {
    each_machine(|machine| {
        let other = Machine::built(Builder::from_env().unwrap().gpu(Gpu::H200));
        let data = Homed::from_slice(&machine.arena(1), &[1u32; 4], Role::ReadOnly).unwrap();
        let error = working_set(&other.stream, Input(&data))
            .map(drop)
            .unwrap_err();
        assert!(
            error
                .to_string()
                .contains("the stream belongs to another runtime"),
            "{error}"
        );
    });
}

#[test]
fn pinned_memory_of_another_runtime_is_no_home() {
    each_machine(|machine| {
        // A simulator also beside a GPU, whose runtime all machines share.
        let other = Machine::built(Builder::from_env().unwrap().gpu(Gpu::H200));
        let home = PinnedBuffer::<u32>::zeroed(&other.device, 4).unwrap();
        let refused = Homed::from_pinned(&machine.arena(1), home, Role::ReadWrite);
        let error = refused.map(drop).unwrap_err().to_string();
        assert!(
            error.contains("the pinned memory belongs to another runtime"),
            "{error}"
        );
    });
}
