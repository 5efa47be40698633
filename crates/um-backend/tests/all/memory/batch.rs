//! Prefetches of many buffers together.

use cuda_um_testkit::without_pools;
use um_backend::sim::{CudaVersion, Gpu};
use um_backend::{
    Buffer, BufferKind, DType, Location, PrefetchBatch, UnifiedBuffer,
    cuda_um::{Placement, UnifiedOptions},
};

use crate::support::opaque::OpaqueBuffer;
use crate::support::{on_each, on_preset};

/// Buffers of every kind and of several element types, some behind `dyn`. Those that cannot migrate are skipped and reported.
#[test]
fn a_mixed_list_says_what_was_left_out() {
    // Three buffers that are not adjacent: one call if the runtime supports batches.
    for (version, expected) in [(CudaVersion::V12_9, 3), (CudaVersion::V13_0, 1)] {
        on_preset(
            Gpu::H200,
            |builder| builder.cuda(version),
            |machine| {
                let (backend, sim) = (machine.backend(), machine.sim.as_ref().unwrap());
                let device = backend.device();
                without_pools(device);
                let weights = backend.create::<f32>(BufferKind::Unified, 1000).unwrap();
                let indices = backend.allocate_unified::<u32>(1000).unwrap();
                let bytes = backend.create::<u8>(BufferKind::Unified, 1000).unwrap();
                let empty = backend.allocate_unified::<u8>(0).unwrap();
                let options = UnifiedOptions::default().placement(Placement::Mapped);
                let mapped = UnifiedBuffer::<u64>::zeroed_with(device, 10, options).unwrap();
                let host = backend.create::<f64>(BufferKind::Host, 10).unwrap();
                let on_device = backend.create::<i32>(BufferKind::Cuda, 10).unwrap();
                let other = backend.create_erased(BufferKind::Host, DType::U32, 9);
                let (opaque, other) = (OpaqueBuffer::<f32>::new(10), other.unwrap());
                let mut batch = PrefetchBatch::new();
                batch.add(&*weights).add(&mapped).add(&indices).add(&*host);
                batch.add(&*bytes).add(&*on_device).add(&empty);
                batch.add(&opaque as &dyn Buffer<f32>).add::<f32>(&other);
                let calls = || {
                    let calls = sim.trace();
                    let prefetch = |name: &str| name.starts_with("cudaMemPrefetch");
                    calls.iter().filter(|call| prefetch(call.name)).count()
                };
                let (before, stream) = (calls(), device.stream());
                let prefetched = batch.prefetch_on(Location::Host, stream).unwrap();
                let found = (prefetched.calls, calls() - before);
                assert_eq!(found, (expected, expected));
                let expected_skips = [
                    (1, "mapped pinned memory"),
                    (3, "host memory"),
                    (5, "device memory"),
                    (7, "opaque memory"),
                    (8, "dtype f32 was requested, but the element type is u32"),
                ];
                assert_eq!(batch.skipped().len(), expected_skips.len());
                for ((index, error), (at, have)) in batch.skipped().iter().zip(expected_skips) {
                    assert_eq!(*index, at);
                    assert!(error.to_string().contains(have), "{index}: {error}");
                }
                let again = |location| batch.prefetch_on(location, stream).unwrap().calls;
                assert_eq!(again(Location::Host), expected, "shared blocks");
                assert_eq!(again(Location::Device(0)), expected);
            },
        );
    }
}

/// On each machine the outcome is the same as that of a separate prefetch, and there is no error.
#[test]
fn every_machine_answers() {
    on_each(|machine| {
        let backend = machine.backend();
        let buffers = [10, 5000].map(|len| backend.allocate_unified::<f32>(len).unwrap());
        let alone = buffers[1].prefetch_to_host().unwrap();
        let mut batch = PrefetchBatch::new();
        batch.add(&buffers[0]).add(&buffers[1]);
        let outcome = batch.prefetch_on(Location::Host, backend.device().stream());
        match backend.device().managed_memory_obstacle() {
            None => assert_eq!(outcome.unwrap().outcome.is_applied(), alone.is_applied()),
            Some(_) => {
                let error = alone.require().unwrap_err().to_string();
                assert_eq!(batch.skipped()[1].1.to_string(), error);
            }
        }
    });
}
