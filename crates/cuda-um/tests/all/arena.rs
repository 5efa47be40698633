//! Arenas: one allocation, places of the caller's choice, and the order of the work of successive buffers in one place.

use cuda_um::{PinnedBuffer, resource::DeviceArena};
use cuda_um_sim::{Gpu, Leak};
use std::sync::mpsc::channel;

use cuda_um_testkit::{calls, fail_waits, simulated};

const SLOT: usize = DeviceArena::SLOT_BYTES;

#[test]
fn buffers_stay_apart_and_the_driver_is_asked_once() {
    let (sim, device, stream) = simulated(Gpu::H200);
    let arena = DeviceArena::new(&device, 8 * SLOT).unwrap();
    let before = calls(&sim, "cudaMalloc");
    let mut places: Vec<_> = [(0, 1), (1, SLOT), (2, SLOT + 1), (4, 4 * SLOT)]
        .map(|(first, len)| arena.place::<u8>(first, len).unwrap())
        .into();
    for (value, buffer) in places.iter_mut().enumerate() {
        assert!(buffer.to_vec().unwrap().iter().all(|&byte| byte == 0));
        buffer.fill_on(value as u8 + 1, &stream).unwrap();
    }
    for (value, buffer) in places.iter().enumerate() {
        let bytes = buffer.to_vec().unwrap();
        assert!(bytes.iter().all(|&byte| byte == value as u8 + 1), "{value}");
    }
    assert!(
        arena.place::<u8>(3, 1).is_err(),
        "the second slot of a buffer"
    );
    places.remove(2).close().unwrap();
    let again = arena.place::<u8>(2, 2 * SLOT).unwrap();
    assert_eq!(again.len(), 2 * SLOT);
    assert_eq!(again.as_view().kind_in_words(), "device memory");
    assert_eq!(
        format!("{arena:?}"),
        "DeviceArena { device: 0, slots: 8, .. }"
    );
    assert_eq!(calls(&sim, "cudaMalloc"), before);
}

/// In every order of the streams, and the first buffer after the zeros. Neither the drop nor the next buffer waits on the host.
#[test]
fn the_next_buffer_comes_after_the_last() {
    let (sim, device, stream) = simulated(Gpu::H200);
    let (other, third) = (
        device.create_stream().unwrap(),
        device.create_stream().unwrap(),
    );
    let ones = PinnedBuffer::from_slice(&device, &vec![1u8; 2 * SLOT]).unwrap();
    for order in 0..20 {
        device.synchronize().unwrap();
        let held = sim.hold(order);
        let arena = DeviceArena::new(&device, 4 * SLOT).unwrap();
        let mut first = arena.place::<u8>(0, SLOT).unwrap();
        let mut second = arena.place::<u8>(1, SLOT).unwrap();
        first.fill_on(5, &stream).unwrap();
        second.fill_on(6, &other).unwrap();
        drop((first, second));
        let mut next = arena.place::<u8>(0, 2 * SLOT).unwrap();
        third.copy(&ones, &mut next).unwrap();
        drop(held);
        device.synchronize().unwrap();
        let found = next.to_vec().unwrap();
        assert!(found.iter().all(|&byte| byte == 1), "{}", found[0]);
    }
}

#[test]
fn the_memory_is_freed_after_the_work_in_it() {
    let (sim, device, stream) = simulated(Gpu::H200);
    let arena = DeviceArena::new(&device, 4 * SLOT).unwrap();
    let mut buffer = arena.place::<u8>(2, SLOT).unwrap();
    device.synchronize().unwrap();
    let paused = sim.pause();
    buffer.fill_on(5, &stream).unwrap();
    let (frees, is_freed) = channel();
    sim.on_wait(move |call| {
        let _ = frees.send(call);
    });
    drop(arena);
    drop(buffer);
    assert!(is_freed.try_recv().is_err(), "never while work uses it");
    drop(paused);
    device.runtime().reclaim().unwrap();
    assert_eq!(calls(&sim, "cudaFree"), 1);
}

/// A slot whose work cannot be waited for has no other buffer, and its arena is not freed.
#[test]
fn a_lost_slot_is_never_used_again() {
    let (sim, device, stream) = simulated(Gpu::H200);
    sim.leaves(1, "a wait failed, so the arena is leaked", |leak| {
        matches!(leak, Leak::Memory { .. })
    });
    let arena = DeviceArena::new(&device, 4 * SLOT).unwrap();
    let mut buffer = arena.place::<u8>(1, SLOT).unwrap();
    device.synchronize().unwrap();
    let held = sim.hold(0);
    buffer.fill_on(5, &stream).unwrap();
    fail_waits(&sim);
    buffer.close().unwrap_err();
    sim.clear_failures();
    drop(held);
    let refused = arena.place::<u8>(1, 1).unwrap_err();
    assert!(
        refused.to_string().contains("slot 1 is in use"),
        "{refused}"
    );
    arena.place::<u8>(2, 2 * SLOT).unwrap();
}
