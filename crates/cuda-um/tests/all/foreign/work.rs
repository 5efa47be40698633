//! Work of other libraries on buffers.

use super::their_fill;
use cuda_um::{DeviceBuffer, Error, PinnedBuffer, UnifiedBuffer};
use cuda_um_sim::Gpu;
use cuda_um_testkit::{device, fails, simulated};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

const LEN: usize = 1 << 16;

/// claim 11
#[test]
fn foreign_work_is_ordered_with_ours() {
    let (sim, device, ours) = simulated(Gpu::H200);
    let theirs = device.create_stream().unwrap();
    let mut data = UnifiedBuffer::<u8>::zeroed(&device, LEN).unwrap();
    let mut copy = DeviceBuffer::<u8>::zeroed(&device, LEN).unwrap();
    for round in 1..20 {
        data.fill_on(0, &ours).unwrap();
        // SAFETY: the fill stays within the buffer.
        let enqueued = unsafe {
            theirs.enqueue_foreign((&mut data,), |work| {
                assert_eq!(work.stream(), theirs.as_raw());
                their_fill(&sim, &theirs, work.pointer(0), LEN, round);
            })
        };
        enqueued.unwrap();
        ours.copy(&data, &mut copy).unwrap();
        assert_eq!(copy.to_vec().unwrap(), vec![round; LEN]);
        assert_eq!(data.host().unwrap()[77], round);
    }
}

/// claim 11
#[test]
fn its_result_comes_back_and_its_uses_are_recorded_in_any_case() {
    let (sim, device, stream) = simulated(Gpu::H200);
    let mut data = UnifiedBuffer::<u8>::zeroed(&device, LEN).unwrap();
    device.synchronize().unwrap();
    for panics in [false, true] {
        let paused = sim.pause();
        let value = 5 + u8::from(panics);
        // SAFETY: the fill stays within the view.
        let work = || unsafe {
            stream.enqueue_foreign((data.view_mut(96..).unwrap(), 7u32), |work| {
                their_fill(&sim, &stream, work.pointer(0), LEN - 96, value);
                assert!(!panics, "on purpose");
                Err::<(), _>("their error")
            })
        };
        let outcome = catch_unwind(AssertUnwindSafe(work));
        let result = outcome.ok().map(Result::unwrap);
        assert_eq!(result, (!panics).then_some(Err("their error")));
        fails!(data.try_host(), Error::Busy { .. });
        drop(paused);
        assert_eq!(data.host().unwrap()[95..97], [0, value]);
    }
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
    let missing = || unsafe { stream.enqueue_foreign((&a,), |work| work.pointer::<u8>(1)) };
    assert!(catch_unwind(AssertUnwindSafe(missing)).is_err());
}

/// claim 12: on a device without concurrent managed access, the closure runs in a turn at the gate
#[test]
fn a_guard_inside_foreign_work_is_refused_without_concurrent_access() {
    let (_sim, device, stream) = simulated(Gpu::NoConcurrentAccess);
    let shared = Arc::new(UnifiedBuffer::<u8>::zeroed(&device, 4096).unwrap());
    let mut data = DeviceBuffer::<u8>::zeroed(&device, 4096).unwrap();
    device.synchronize().unwrap();
    // SAFETY: the closure enqueues nothing.
    let inside = unsafe {
        stream.enqueue_foreign((&mut data,), |_| {
            // Other calls of the library work there.
            drop(DeviceBuffer::<u8>::zeroed(&device, 10).unwrap());
            shared.host().map(|guard| guard[0])
        })
    };
    fails!(inside.unwrap(), Error::Busy { .. });
    let guard = shared.host().unwrap();
    // SAFETY: the closure is not called: a kernel of it would run beside the guard.
    let refused = unsafe { stream.enqueue_foreign((&mut data,), |_| -> () { unreachable!() }) };
    fails!(refused, Error::Busy { .. });
    assert_eq!(guard[0], 0);
}
