//! A machine with too little host memory: the error says so, and the buffer does not change.
//!
//! The allocator of this test binary refuses allocations as large as a buffer.
#![allow(unsafe_code, reason = "an allocator is unsafe to implement")]

use cuda_um::{DeviceBuffer, Error, ErrorKind, PinnedBuffer, UnifiedBuffer};
use cuda_um_sim::Gpu;
use cuda_um_testkit::simulated;
use std::alloc::{GlobalAlloc, Layout, System};

const LARGEST: usize = 8 << 20;
/// Elements of a buffer, 16 MiB.
const LEN: usize = 4 << 20;

struct Short;

// SAFETY: forwards to the system's allocator, or refuses.
unsafe impl GlobalAlloc for Short {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match layout.size() <= LARGEST {
            // SAFETY: required of the caller.
            true => unsafe { System.alloc(layout) },
            false => std::ptr::null_mut(),
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        match layout.size() <= LARGEST {
            // SAFETY: required of the caller.
            true => unsafe { System.alloc_zeroed(layout) },
            false => std::ptr::null_mut(),
        }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the memory comes from the system's allocator.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static SHORT: Short = Short;

/// The error names the call and the requested size.
fn is_refused<R>(result: Result<R, Error>, by: &str) {
    let Err(error) = result else {
        panic!("{by} had enough memory")
    };
    assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
    let Error::OutOfMemory {
        call,
        requested_bytes,
        ..
    } = error
    else {
        panic!("{error}")
    };
    assert_eq!((call, requested_bytes), (by, LEN * 4));
}

#[test]
fn read_back_without_memory_of_the_host_is_an_error() {
    for gpu in [Gpu::H200, Gpu::NoConcurrentAccess] {
        let (_sim, device, stream) = simulated(gpu);
        let mut unified = UnifiedBuffer::<u32>::zeroed(&device, LEN).unwrap();
        let mut on_device = DeviceBuffer::<u32>::zeroed(&device, LEN).unwrap();
        let mut pinned = PinnedBuffer::<u32>::zeroed(&device, LEN).unwrap();
        unified.fill_on(5, &stream).unwrap();
        on_device.fill_on(6, &stream).unwrap();
        pinned.fill_on(7, &stream).unwrap();
        is_refused(unified.to_vec(), "to_vec");
        is_refused(on_device.to_vec(), "to_vec");
        is_refused(pinned.to_vec(), "to_vec");
        let mut part = [0; 3];
        on_device.copy_to_host_at(LEN - 3, &mut part).unwrap();
        assert_eq!(part, [6; 3]);
        unified.copy_to_host_at(LEN - 3, &mut part).unwrap();
        assert_eq!(part, [5; 3]);
        pinned.copy_to_host_at(LEN - 3, &mut part).unwrap();
        assert_eq!(part, [7; 3]);
    }
}
