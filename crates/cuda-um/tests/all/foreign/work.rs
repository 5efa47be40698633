//! Work of other libraries on buffers.

use cuda_um::{DeviceBuffer, Error, PinnedBuffer, UnifiedBuffer, sys};
use cuda_um_sim::Gpu;
use cuda_um_testkit::{device, simulated, simulated_with};
use std::sync::Arc;

/// A fill by "another library", through the function table.
fn their_fill(
    table: &sys::Table,
    stream: sys::cudaStream_t,
    address: *mut u8,
    bytes: usize,
    value: i32,
) {
    // SAFETY: the address is valid for as many bytes.
    let code = unsafe { (table.cudaMemsetAsync)(address.cast(), value, bytes, stream) };
    assert_eq!(code, sys::cudaError::cudaSuccess);
}

/// claim 11
#[test]
fn foreign_work_is_ordered_with_ours() {
    let (sim, device, ours) = device();
    let Some(sim) = &sim else { return };
    let table = sim.table();
    let theirs = device.create_stream().unwrap();
    let mut data = UnifiedBuffer::<u8>::zeroed(&device, 1 << 20).unwrap();
    let mut copy = DeviceBuffer::<u8>::zeroed(&device, 1 << 20).unwrap();
    for round in 1..20u8 {
        data.fill_on(0, &ours).unwrap();
        // SAFETY: the fill stays within the buffer.
        unsafe {
            theirs.enqueue_foreign((&mut data,), |work| {
                assert_eq!(work.stream(), theirs.as_raw());
                their_fill(
                    &table,
                    work.stream(),
                    work.pointer(0),
                    1 << 20,
                    round.into(),
                );
            })
        }
        .unwrap();
        ours.copy(&data, &mut copy).unwrap();
        assert_eq!(copy.to_vec().unwrap(), vec![round; 1 << 20]);
        assert_eq!(data.host().unwrap()[77], round);
    }
}

/// claim 11
#[test]
fn its_result_comes_back_and_its_uses_are_recorded_in_any_case() {
    let (sim, device, stream) = simulated(Gpu::H200);
    let table = sim.table();
    let mut data = UnifiedBuffer::<u8>::zeroed(&device, 4096).unwrap();
    device.synchronize().unwrap();
    let paused = sim.pause();
    // SAFETY: the fill stays within the view.
    let result: Result<(), &str> = unsafe {
        stream.enqueue_foreign((data.view_mut(96..).unwrap(), 7u32), |work| {
            their_fill(&table, work.stream(), work.pointer(0), 4000, 5);
            Err("their error")
        })
    }
    .unwrap();
    assert_eq!(result, Err("their error"));
    assert!(matches!(data.try_host(), Err(Error::Busy { .. })));
    drop(paused);
    assert_eq!(data.host().unwrap()[95..97], [0, 5]);
    let paused = sim.pause();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        // SAFETY: as above.
        unsafe {
            stream.enqueue_foreign((&mut data,), |work| {
                their_fill(&table, work.stream(), work.pointer(0), 4096, 6);
                panic!("on purpose")
            })
        }
    }));
    assert!(panicked.is_err());
    assert!(matches!(data.try_host(), Err(Error::Busy { .. })));
    drop(paused);
    assert_eq!(data.host().unwrap()[0], 6);
}

#[test]
fn the_addresses_are_those_of_the_buffers_in_order() {
    let (_sim, device, stream) = device();
    let a = UnifiedBuffer::<u32>::zeroed(&device, 10).unwrap();
    let mut b = DeviceBuffer::<u32>::zeroed(&device, 10).unwrap();
    let c = PinnedBuffer::<u32>::zeroed(&device, 10).unwrap();
    let expected = [
        a.as_ptr().cast_mut(),
        b.as_ptr().cast_mut().wrapping_add(4),
        c.device_ptr().unwrap_or(c.as_ptr()).cast_mut(),
    ];
    // SAFETY: the closure enqueues nothing.
    let found = unsafe {
        stream.enqueue_foreign((&a, 1u64, b.view_mut(4..).unwrap(), &c), |work| {
            [0, 1, 2].map(|index| work.pointer::<u32>(index))
        })
    };
    assert_eq!(found.unwrap(), expected);
    // SAFETY: as above.
    let missing = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| unsafe {
        stream.enqueue_foreign((&a,), |work| work.pointer::<u8>(1))
    }));
    assert!(missing.is_err());
}

/// claim 12: On a device without concurrent managed access, the closure runs in a turn at the gate.
#[test]
fn a_guard_inside_foreign_work_is_refused_without_concurrent_access() {
    let (_sim, device, stream) = simulated_with(|builder| builder.gpu(Gpu::NoConcurrentAccess));
    let shared = Arc::new(UnifiedBuffer::<u8>::zeroed(&device, 4096).unwrap());
    let mut data = DeviceBuffer::<u8>::zeroed(&device, 4096).unwrap();
    device.synchronize().unwrap();
    // SAFETY: the closure enqueues nothing.
    let inside = unsafe {
        stream.enqueue_foreign((&mut data,), |_| {
            // Other calls of the library work there.
            let own = DeviceBuffer::<u8>::zeroed(&device, 10).unwrap();
            drop(own);
            shared.host().map(|guard| guard[0])
        })
    };
    assert!(matches!(inside.unwrap(), Err(Error::Busy { .. })));
    assert_eq!(shared.host().unwrap()[0], 0);
    let guard = shared.host().unwrap();
    // SAFETY: the closure is not called: a kernel of it would run beside the guard.
    let refused = unsafe { stream.enqueue_foreign((&mut data,), |_| -> () { unreachable!() }) };
    assert!(matches!(refused, Err(Error::Busy { .. })));
    drop(guard);
}
