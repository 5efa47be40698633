//! Working sets: contents, order, budgets, guards, and threads.

mod files;
mod threads;

use std::fs::File;
#[cfg(unix)]
use std::fs::OpenOptions;
#[cfg(unix)]
use std::io::ErrorKind;
use std::io::{Read as _, Write as _};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::support::{MIB, Machine, SLOT, each_machine};
use cuda_um_testkit::{calls, watchdog::watch};
use um_backend::cuda_um::{PinnedBuffer, constant};
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
fn the_least_recently_used_leaves() {
    let machine = Machine::new(Gpu::H200);
    let (arena, stream) = (machine.arena(2), &machine.stream);
    let [a, b, c] = [1, 2, 3].map(|value| homed(&arena, value, 1, Role::ReadOnly));
    for buffer in [&a, &b, &a, &c] {
        drop(working_set(stream, Input(buffer)).unwrap());
    }
    assert_eq!(
        [&a, &b, &c].map(|buffer| buffer.is_resident()),
        [true, false, true]
    );
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

/// A machine on the simulator, whose captures do not run: the contents of a slot are known.
fn capturing() -> Machine {
    let builder = Builder::from_env().expect("CUDA_UM_SIM_* name a simulator");
    Machine::built(builder.gpu(Gpu::H200))
}

#[test]
fn an_output_of_a_graph_that_is_not_launched_replaces_nothing() {
    let machine = capturing();
    let (arena, stream) = (machine.arena(2), &machine.stream);
    let (other, buffer) = (
        homed(&arena, 7, 1, Role::ReadWrite),
        homed(&arena, 5, 1, Role::ReadWrite),
    );
    drop(working_set(stream, Input(&other)).unwrap());
    let graph = stream.capture(|_| {
        let set = working_set(stream, Output(&buffer));
        let mut output = set.map_err(|error| CudaError::Other(error.into()))?;
        output.view_mut().fill_on(constant(9), stream)
    });
    drop(graph);
    assert!(holds(&buffer, 5), "the contents were replaced");
}

#[test]
fn a_buffer_that_leaves_in_a_capture_gives_its_slot_back() {
    let machine = capturing();
    let (arena, stream) = (machine.arena(2), &machine.stream);
    let weights = [0, 1].map(|value| homed(&arena, value, 1, Role::ReadOnly));
    let mut leaves = Some(homed(&arena, 7, 1, Role::ReadWrite));
    // The buffer is there before the capture.
    drop(working_set(stream, InOut(leaves.as_ref().unwrap())).unwrap());
    machine.device.synchronize().unwrap();
    let graph = stream.capture(|_| {
        let set = working_set(stream, InOut(leaves.as_ref().unwrap()));
        let mut guard = set.map_err(|error| CudaError::Other(error.into()))?;
        guard.view_mut().fill_on(constant(9), stream)?;
        drop(guard);
        leaves = None;
        Ok(())
    });
    let both = working_set(stream, (Input(&weights[0]), Input(&weights[1])));
    assert!(both.is_ok(), "{}", both.unwrap_err());
    drop((both, graph));
}
