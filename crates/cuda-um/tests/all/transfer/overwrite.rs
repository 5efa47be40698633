//! The closures of `host_overwrite`.

use super::*;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::Barrier;

#[test]
fn overwriting_moves_nothing_to_the_host() {
    let (sim, device, _) = simulated(Gpu::H200);
    let mut buffer = UnifiedBuffer::<u32>::zeroed(&device, 1 << 20).unwrap();
    device.synchronize().unwrap();
    sim.reset_counters();
    buffer
        .host_overwrite(.., |first, slots| slots.fill_with(|i| (first + i) as u32))
        .unwrap();
    let counters = sim.counters();
    assert_eq!(counters.bytes_to_host, 0);
    assert_eq!(counters.cpu_faults + counters.gpu_faults, 0);
    assert_eq!(buffer.host().unwrap()[77_777], 77_777);
}

/// claim 25: The pieces before a panic are uses of the memory: later work on another stream comes after them, and nothing goes on.
#[test]
fn work_comes_after_the_pieces_before_a_panic() {
    for order in 0..10 {
        let (sim, device, _) = simulated(Gpu::H200);
        device.set_transfer_options(small(2));
        let other = device.create_stream().unwrap();
        let mut buffer = DeviceBuffer::<u32>::zeroed(&device, 100_000).unwrap();
        device.synchronize().unwrap();
        let _held = sim.hold(order);
        let panic = catch_unwind(AssertUnwindSafe(|| {
            buffer.host_overwrite(.., |first, slots| {
                assert!(first < 5_000, "on purpose");
                slots.fill_with(|_| 3)
            })
        }));
        assert!(panic.is_err());
        buffer.fill_on(4, &other).unwrap();
        assert_eq!(buffer.to_vec().unwrap(), vec![4; 100_000]);
        buffer
            .host_overwrite(.., |_, slots| slots.fill_with(|_| 5))
            .unwrap();
        assert_eq!(buffer.to_vec().unwrap(), vec![5; 100_000]);
    }
}

/// A payload with a destructor that panics.
struct Payload;

impl Drop for Payload {
    fn drop(&mut self) {
        panic!("the destructor of a payload, on purpose");
    }
}

/// claim 34
#[test]
fn a_payload_whose_destructor_panics_keeps_nobody_waiting() {
    let (_sim, device, _) = simulated(Gpu::H200);
    let _watchdog = watch();
    device.set_transfer_options(TransferOptions::default().threads(4));
    let mut buffer = DeviceBuffer::<u8>::zeroed(&device, 32 * MIB).unwrap();
    let here = std::thread::current().id();
    // Round 0: three helper threads panic; round 1: all four threads panic. Afterwards all of them must still exist.
    for round in 0..3 {
        let (all, waited) = (Barrier::new(4), AtomicUsize::new(0));
        let overwritten = catch_unwind(AssertUnwindSafe(|| {
            buffer.host_overwrite(.., |_, slots| {
                // All four threads take part before anything happens.
                thread_local!(static MET: Cell<usize> = const { Cell::new(usize::MAX) });
                if MET.replace(round) != round {
                    waited.fetch_add(1, Ordering::Relaxed);
                    all.wait();
                }
                if round == 1 || round == 0 && std::thread::current().id() != here {
                    panic_any(Payload);
                }
                slots.fill_with(|_| 2)
            })
        }));
        assert_eq!(waited.into_inner(), 4);
        match overwritten {
            Ok(overwritten) => overwritten.unwrap(),
            Err(payload) => {
                assert!(payload.is::<Payload>() && round < 2);
                std::mem::forget(payload);
            }
        }
    }
    assert!(buffer.to_vec().unwrap().iter().all(|byte| *byte == 2));
}

/// claim 39
#[test]
fn options_may_be_set_while_elements_are_made() {
    let (sim, device, _) = simulated(Gpu::H200);
    let _watchdog = watch();
    device.set_transfer_options(small(3));
    let mut buffer = UnifiedBuffer::<u32>::zeroed(&device, 600_000).unwrap();
    let other = UnifiedBuffer::from_slice(&device, &numbers(20_000, 7)).unwrap();
    // On this thread and on the helper threads.
    buffer
        .host_overwrite(.., |first, slots| {
            device.set_transfer_options(small(2).ring_bytes(2 * 2 * 32768));
            let mut piece = [0; 100];
            other.copy_to_host_at(0, &mut piece).unwrap();
            slots.fill_with(|at| (first + at) as u32 ^ piece[0])
        })
        .unwrap();
    let key = other.host().unwrap()[0];
    let is_right = |(at, value): (usize, &u32)| *value == at as u32 ^ key;
    assert!(buffer.host().unwrap().iter().enumerate().all(is_right));
    // The old ring is freed when the copy has ended, and the next copy creates one of the new size. The small copies have memory of their own.
    let is_ring = |bytes: &usize| bytes.is_multiple_of(16384);
    assert!(!pinned(&sim).iter().any(is_ring));
    buffer.copy_from_host(&numbers(600_000, 8)).unwrap();
    let rings = pinned(&sim).into_iter().filter(is_ring);
    assert!(rings.eq([2 * 2 * 32768]));
}

/// claim 39: On a device without concurrent managed access, too: the closures of all threads run outside of the turn at the gate.
#[test]
fn what_makes_the_elements_may_take_guards_copy_and_read() {
    for gpu in [Gpu::H200, Gpu::NoConcurrentAccess] {
        for threads in [1, 3] {
            let (_sim, device, stream) = simulated(gpu);
            let _watchdog = watch();
            device.set_transfer_options(small(threads));
            let all = numbers(20_000, 6);
            let source = UnifiedBuffer::from_slice(&device, &all).unwrap();
            let mut target = DeviceBuffer::<u32>::zeroed(&device, 20_000).unwrap();
            let mut overwrite = |make: &(dyn Fn(usize, usize) -> Vec<u32> + Sync)| {
                target.fill_on(1, &stream).unwrap();
                let filled = target.host_overwrite(.., |first, slots| {
                    let end = first + slots.len();
                    slots.copy_from_slice(&make(first, end))
                });
                filled.unwrap();
                assert!(target.to_vec().unwrap() == all, "{gpu:?}, {threads}");
            };
            overwrite(&|first, end| source.host().unwrap()[first..end].to_vec());
            overwrite(&|first, end| {
                let mut piece = vec![0; end - first];
                source.copy_to_host_at(first, &mut piece).unwrap();
                piece
            });
            overwrite(&|first, end| {
                let mut other = DeviceBuffer::<u8>::zeroed(&device, 80_000).unwrap();
                let storage = Storage::new(bytemuck::cast_slice(&all).to_vec());
                read(other.as_view_mut(), &storage, &whole(80_000)).unwrap();
                let bytes = other.to_vec().unwrap();
                bytemuck::pod_collect_to_vec(&bytes[4 * first..4 * end])
            });
        }
    }
}
