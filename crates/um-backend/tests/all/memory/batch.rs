//! Prefetches of many buffers together.

use cuda_um_testkit::without_pools;
use um_backend::sim::{Builder, CudaVersion, Gpu, Sim};
use um_backend::{
    Buffer, BufferKind, DType, Location, PrefetchBatch, UnifiedBuffer,
    cuda_um::{Placement, UnifiedOptions},
};

use crate::support::opaque::OpaqueBuffer;
use crate::support::{on_each, on_preset};

/// The number of prefetch calls of the driver so far.
fn calls(sim: &Sim) -> usize {
    let trace = sim.trace();
    let prefetch = |name: &str| name.starts_with("cudaMemPrefetch");
    trace.iter().filter(|call| prefetch(call.name)).count()
}

fn cuda(version: CudaVersion) -> impl Fn(Builder) -> Builder {
    move |builder| builder.cuda(version)
}

/// Buffers of every kind and of several element types, some behind `dyn`. Those that cannot migrate are skipped and reported.
#[test]
fn a_mixed_list_says_what_was_left_out() {
    // Three buffers that are not adjacent: one call if the runtime supports batches.
    for (version, expected) in [(CudaVersion::V12_9, 3), (CudaVersion::V13_0, 1)] {
        on_preset(Gpu::H200, cuda(version), |machine| {
            let (backend, sim) = (machine.backend(), machine.sim.as_ref().unwrap());
            without_pools(backend.device());
            let weights = backend.create::<f32>(BufferKind::Unified, 1000).unwrap();
            let indices = backend.allocate_unified::<u32>(1000).unwrap();
            let bytes = backend.create::<u8>(BufferKind::Unified, 1000).unwrap();
            let empty = backend.allocate_unified::<u8>(0).unwrap();
            let options = UnifiedOptions::default().placement(Placement::Mapped);
            let mapped = UnifiedBuffer::<u64>::zeroed_with(backend.device(), 10, options).unwrap();
            let host = backend.create_host::<f64>(10).unwrap();
            let pinned = backend.create_pinned::<f32>(10).unwrap();
            let on_device = backend.create::<i32>(BufferKind::Cuda, 10).unwrap();
            let opaque = OpaqueBuffer::<f32>::new(10);

            let mut batch = PrefetchBatch::new();
            batch.add(&*weights).add(&mapped).add(&indices).add(&host);
            batch
                .add(&pinned)
                .add(&*bytes)
                .add(&*on_device)
                .add(&opaque as &dyn Buffer<f32>);
            batch.add(&empty);
            let before = calls(sim);
            let stream = backend.device().stream();
            let prefetched = batch.prefetch_on(Location::Host, stream).unwrap();
            assert_eq!(prefetched.calls, expected);
            assert_eq!(calls(sim) - before, expected);
            let expected_skips = [
                (1, "mapped pinned memory"),
                (3, "host memory"),
                (4, "pinned memory"),
                (6, "device memory"),
                (7, "opaque memory"),
            ];
            assert_eq!(batch.skipped().len(), expected_skips.len());
            for ((index, error), (expected, have)) in batch.skipped().iter().zip(expected_skips) {
                assert_eq!(*index, expected);
                assert!(error.to_string().contains(have), "{index}: {error}");
            }
            let again = |location| batch.prefetch_on(location, stream).unwrap().calls;
            assert_eq!(again(Location::Host), expected, "shared blocks");
            assert_eq!(again(Location::Device(0)), expected);
        });
    }
}

#[test]
fn an_argument_of_another_type_is_skipped_with_its_reason() {
    on_each(|machine| {
        let backend = machine.backend();
        let erased = backend
            .create_erased(BufferKind::Host, DType::U32, 9)
            .unwrap();
        let mut batch = PrefetchBatch::new();
        batch.add::<f32>(&erased);
        assert_eq!(batch.prefetch(Location::Host).unwrap().calls, 0);
        assert_eq!(
            batch.skipped()[0].1.to_string(),
            "dtype f32 was requested, but the element type is u32: both must be the same"
        );
    });
}

/// On each machine the outcome of each buffer is the same as that of a separate prefetch, and there is no error.
#[test]
fn every_machine_answers() {
    on_each(|machine| {
        let backend = machine.backend();
        let buffers = [10, 5000].map(|len| backend.allocate_unified::<f32>(len).unwrap());
        let alone = buffers[1].prefetch_to_host().unwrap();
        for location in [Location::Host, Location::Device(0)] {
            let batch = PrefetchBatch::from_iter(&buffers);
            let outcome = batch.prefetch_on(location, backend.device().stream());
            let is_poor = backend.device().managed_memory_obstacle();
            let skipped = batch.skipped().len();
            assert_eq!(skipped, if is_poor.is_some() { 2 } else { 0 });
            let is_applied = skipped == 0 && outcome.unwrap().outcome.is_applied();
            assert_eq!(is_applied, machine.is_concurrent());
            if let Some(obstacle) = is_poor {
                assert_eq!(
                    alone.clone().require().unwrap_err().to_string(),
                    batch.skipped()[1].1.to_string()
                );
                assert!(alone.to_string().contains(&obstacle), "{alone}");
            }
        }
        assert_eq!(buffers[1].to_vec().unwrap(), vec![0.0; 5000]);
    });
}
