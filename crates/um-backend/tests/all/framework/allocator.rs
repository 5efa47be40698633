//! An allocator of raw addresses, as a framework plugs it in.
#![allow(
    unsafe_code,
    reason = "passes streams and addresses as a framework does"
)]

use std::ffi::c_void;
use std::sync::mpsc;

use cuda_um_testkit::{Told, device};
use um_backend::allocator::Allocator;
use um_backend::cuda_um::sys::cudaMemRangeAttribute;
use um_backend::cuda_um::{MemoryKind, Pool, PoolOptions};
use um_backend::{Advice, CudaError, Device, Location, Stream};

const KINDS: [MemoryKind; 2] = [MemoryKind::Managed, MemoryKind::Device];
const MIB: usize = 1 << 20;

fn allocator(device: &Device, kind: MemoryKind, options: PoolOptions) -> Allocator {
    let pool = Pool::new(device, kind, options).unwrap();
    Allocator::new(pool).unwrap().name("framework")
}

fn allocate(allocator: &Allocator, bytes: usize, stream: &Stream) -> *mut c_void {
    // SAFETY: the stream lives.
    unsafe { allocator.allocate(bytes, stream.as_raw()) }.unwrap()
}

fn free(allocator: &Allocator, address: *mut c_void, stream: &Stream) {
    // SAFETY: the stream lives, and the tests use the memory only on it, and before.
    unsafe { allocator.free(address, stream.as_raw()) }.unwrap();
}

#[test]
fn memory_that_one_stream_frees_is_used_on_another_after_its_work_and_no_call_waits() {
    let (_sim, device, a) = device();
    // The allocator has fewer streams of its own, so some of these share one with `a`, and others do not.
    let others = [(); 16].map(|()| device.create_stream().unwrap());
    for kind in KINDS {
        for (b, bytes) in others.iter().flat_map(|b| [(b, 1000), (b, 24 * MIB)]) {
            let allocator = allocator(&device, kind, PoolOptions::default());
            let told = Told::load(&device);
            let address = allocate(&allocator, bytes, &a);
            told.launch(&a, 0u64);
            free(&allocator, address, &a);
            assert_eq!(allocator.stats().live_bytes, 0);
            assert_eq!(allocate(&allocator, bytes, b), address);
            assert!(!b.is_idle().unwrap() && !told.has_ended());
            told.tell();
            b.synchronize().unwrap();
            assert!(told.has_ended());
            free(&allocator, address, b);
        }
    }
}

#[test]
fn a_stream_of_the_framework_may_be_destroyed_before_its_memory_is_freed_and_used_again() {
    let (_sim, device, a) = device();
    let b = device.create_stream().unwrap();
    let table = device.runtime().table();
    for (kind, is_freed) in KINDS
        .into_iter()
        .flat_map(|kind| [(kind, true), (kind, false)])
    {
        let allocator = allocator(&device, kind, PoolOptions::default());
        let told = Told::load(&device);
        let mut theirs = std::ptr::null_mut();
        // SAFETY: the stream is written, used while it lives, and destroyed once.
        let address = unsafe {
            assert_eq!((table.cudaStreamCreateWithFlags)(&mut theirs, 1).0, 0);
            let address = allocator.allocate(1000, theirs).unwrap();
            {
                let theirs = device.adopt_stream(theirs, ()).unwrap();
                told.launch(&theirs, 0u64);
                a.wait(&theirs.record().unwrap()).unwrap();
            }
            if is_freed {
                allocator.free(address, theirs).unwrap();
            }
            assert_eq!((table.cudaStreamDestroy)(theirs).0, 0);
            address
        };
        if !is_freed {
            free(&allocator, address, &a);
        }
        assert_eq!(allocate(&allocator, 1000, &b), address);
        assert!(!b.is_idle().unwrap() && !told.has_ended());
        told.tell();
        b.synchronize().unwrap();
        assert!(told.has_ended());
        free(&allocator, address, &b);
    }
}

#[test]
fn new_managed_memory_is_on_the_device_unless_the_prefetch_is_off() {
    let (_sim, device, stream) = device();
    if !cuda_um_testkit::is_concurrent(&device) {
        return;
    }
    for prefetch in [true, false] {
        let pool = Pool::new(&device, MemoryKind::Managed, PoolOptions::default()).unwrap();
        let allocator = Allocator::new(pool).unwrap().prefetch(prefetch);
        let address = allocate(&allocator, 4 * MIB, &stream);
        stream.synchronize().unwrap();
        let what = cudaMemRangeAttribute::cudaMemRangeAttributeLastPrefetchLocation;
        let invalid_device = -2;
        let expected = if prefetch { 0 } else { invalid_device };
        let last = attribute(&device, what, address, 4 * MIB);
        assert_eq!(last, expected, "{prefetch}");
        free(&allocator, address, &stream);
    }
}

fn attribute(
    device: &Device,
    what: cudaMemRangeAttribute,
    address: *mut c_void,
    bytes: usize,
) -> i32 {
    let ask = device.runtime().table().cudaMemRangeGetAttribute;
    let mut value = 0_i32;
    let written = (&raw mut value).cast::<c_void>();
    // SAFETY: the memory lives, and the answer has four bytes.
    assert_eq!(unsafe { ask(written, 4, what, address, bytes) }.0, 0);
    value
}

#[test]
fn hints_for_a_part_of_a_block_end_with_it() {
    let (_sim, device, stream) = device();
    if !cuda_um_testkit::is_concurrent(&device) {
        return;
    }
    let allocator = allocator(&device, MemoryKind::Managed, PoolOptions::default());
    let address = allocate(&allocator, 4 * MIB, &stream);
    let start = address.addr();
    let read_mostly = || {
        let what = cudaMemRangeAttribute::cudaMemRangeAttributeReadMostly;
        attribute(&device, what, address.wrapping_byte_add(2 * MIB), MIB)
    };
    {
        let held = allocator.held().unwrap();
        // SAFETY: for hints.
        let view = |addresses| unsafe { held.view(addresses) };
        let part = view(start + 2 * MIB..start + 3 * MIB).unwrap();
        assert!(part.advise(Advice::SetReadMostly).unwrap().is_applied());
        assert!(part.prefetch(Location::Host).unwrap().is_applied());
        assert_eq!(part.as_ptr().addr(), start + 2 * MIB);
        for outside in [
            start - 1..start + 1,
            start + MIB..start + 4 * MIB + 1,
            start + 4 * MIB..start + 5 * MIB,
        ] {
            assert!(view(outside).is_none());
        }
    }
    assert_eq!(read_mostly(), 1);
    free(&allocator, address, &stream);
    assert_eq!(allocate(&allocator, 4 * MIB, &stream), address);
    assert_eq!(read_mostly(), 0);
    free(&allocator, address, &stream);
}

#[test]
fn a_captured_stream_gets_memory_whose_former_work_is_done_and_frees_none() {
    let (_sim, device, a) = device();
    let allocator = allocator(&device, MemoryKind::Device, PoolOptions::default());
    let told = Told::load(&device);
    let address = allocate(&allocator, 1000, &a);
    told.launch(&a, 0u64);
    free(&allocator, address, &a);
    told.tell();
    let theirs = device.create_stream().unwrap();
    let table = device.runtime().table();
    let (begin, end) = (table.cudaStreamBeginCapture, table.cudaStreamEndCapture);
    let relaxed = um_backend::cuda_um::sys::cudaStreamCaptureMode(2);
    // SAFETY: the stream lives.
    let code = unsafe { begin.unwrap()(theirs.as_raw(), relaxed) };
    assert_eq!(code.0, 0);
    assert_eq!(allocate(&allocator, 1000, &theirs), address);
    assert!(told.has_ended());
    // SAFETY: as in `free`.
    let refused = unsafe { allocator.free(address, theirs.as_raw()) }.unwrap_err();
    assert!(matches!(refused, CudaError::Capture { .. }), "{refused}");
    let mut graph = std::ptr::null_mut();
    // SAFETY: the capture that was begun above.
    let code = unsafe { end.unwrap()(theirs.as_raw(), &mut graph) };
    assert_eq!(code.0, 0, "the capture is as it was");
    // SAFETY: the graph of above.
    unsafe { table.cudaGraphDestroy.unwrap()(graph) };
    free(&allocator, address, &theirs);
}

#[test]
fn wrong_addresses_pools_and_sizes_are_refused_and_change_nothing() {
    let (_sim, device, stream) = device();
    let options = PoolOptions::default().limit_bytes(64 * MIB);
    let allocator = allocator(&device, MemoryKind::Device, options);
    let address = allocate(&allocator, 1000, &stream);
    let live = allocator.stats();
    // SAFETY: refused.
    let refused = unsafe { allocator.allocate(65 * MIB, stream.as_raw()) }.unwrap_err();
    assert!(
        matches!(refused, CudaError::OutOfMemory { .. }),
        "{refused}"
    );
    let other = address.wrapping_byte_add(256);
    // SAFETY: refused.
    let refused = unsafe { allocator.free(other, stream.as_raw()) }.unwrap_err();
    assert!(matches!(refused, CudaError::Foreign { .. }), "{refused}");
    assert_eq!(allocator.stats().live_bytes, live.live_bytes);
    assert!(allocate(&allocator, 0, &stream).is_null());
    free(&allocator, std::ptr::null_mut(), &stream);
    free(&allocator, address, &stream);
    // SAFETY: refused.
    let again = unsafe { allocator.free(address, stream.as_raw()) }.unwrap_err();
    assert!(again.to_string().contains("once"), "{again}");
    let pinned = Pool::new(&device, MemoryKind::Pinned, PoolOptions::default()).unwrap();
    let refused = Allocator::new(pinned).unwrap_err();
    assert!(refused.to_string().contains("pinned"), "{refused}");
}

#[test]
fn the_default_stream_of_a_thread_waits_for_former_work_and_its_frees_for_the_device() {
    let (_sim, device, a) = device();
    let allocator = allocator(&device, MemoryKind::Device, PoolOptions::default());
    let per_thread = std::ptr::without_provenance_mut(2);
    for frees_on_it in [false, true] {
        let told = Told::load(&device);
        let address = allocate(&allocator, 1000, &a);
        told.launch(&a, 0u64);
        if frees_on_it {
            told.tell();
        }
        match frees_on_it {
            // SAFETY: the stream of this thread, and no work on it.
            true => unsafe { allocator.free(address, per_thread) }.unwrap(),
            false => free(&allocator, address, &a),
        }
        assert_eq!(told.has_ended(), frees_on_it);
        told.tell();
        // SAFETY: as above.
        let again = unsafe { allocator.allocate(1000, per_thread) }.unwrap();
        assert!(again == address && told.has_ended());
        free(&allocator, again, &a);
    }
}

/// Threads that free each other's memory on streams of their own. `CUDA_UM_STRESS_ALLOCATIONS` is how much each thread allocates.
#[test]
fn memory_is_freed_by_other_threads_on_other_streams_and_none_is_left() {
    let (_sim, device, _) = device();
    let count = std::env::var("CUDA_UM_STRESS_ALLOCATIONS");
    let count = count.map_or(500, |count| count.parse().unwrap());
    for kind in KINDS {
        let allocator = allocator(&device, kind, PoolOptions::default());
        std::thread::scope(|scope| {
            let (senders, receivers): (Vec<_>, Vec<_>) =
                (0..8).map(|_| mpsc::channel::<(usize, Stream)>()).unzip();
            for (number, receiver) in receivers.into_iter().enumerate() {
                let next = senders[(number + 1) % 8].clone();
                let (allocator, stream) = (&allocator, device.create_stream().unwrap());
                scope.spawn(move || {
                    let free = |address, stream: &Stream| {
                        let address = std::ptr::with_exposed_provenance_mut(address);
                        free(allocator, address, stream);
                    };
                    for bytes in (0..count).map(|index| 1 << (8 + (index + number) % 14)) {
                        let address = allocate(allocator, bytes, &stream).expose_provenance();
                        next.send((address, stream.clone())).unwrap();
                        for (address, theirs) in receiver.try_iter() {
                            // The framework orders its streams.
                            stream.wait(&theirs.record().unwrap()).unwrap();
                            free(address, &stream);
                        }
                    }
                    drop(next);
                    receiver
                        .iter()
                        .for_each(|(address, theirs)| free(address, &theirs));
                });
            }
            drop(senders);
        });
        device.synchronize().unwrap();
        let stats = allocator.stats();
        assert_eq!((stats.live_bytes, stats.live_buffers), (0, 0));
    }
}
