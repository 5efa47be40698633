//! Prefetches of many buffers together.

use um_backend::sim::Gpu;
use um_backend::{Buffer, BufferKind, DType, Location, PrefetchBatch};

use crate::support::on_preset;
use crate::support::opaque::OpaqueBuffer;

/// Buffers of every kind, behind `dyn` and erased. Those that cannot migrate are skipped and reported.
#[test]
fn a_mixed_list_says_what_was_left_out() {
    let machine = |builder| builder;
    on_preset(Gpu::H200, machine, |machine| {
        let backend = machine.backend();
        let weights = backend.create::<f32>(BufferKind::Unified, 1000).unwrap();
        let host = backend.create::<f64>(BufferKind::Host, 10).unwrap();
        let on_device = backend.create::<i32>(BufferKind::Cuda, 10).unwrap();
        let opaque = OpaqueBuffer::<f32>::new(10);
        let other = backend
            .create_erased(BufferKind::Host, DType::U32, 9)
            .unwrap();
        let mut batch = PrefetchBatch::new();
        batch.add(&*weights).add(&*host).add(&*on_device);
        batch.add(&opaque as &dyn Buffer<f32>).add::<f32>(&other);
        let stream = backend.device().stream();
        let prefetched = batch.prefetch_on(Location::Host, stream);
        assert_eq!(prefetched.unwrap().calls, 1);
        let expected = [
            (1, "host memory"),
            (2, "device memory"),
            (3, "opaque memory"),
            (4, "dtype f32 was requested, but the element type is u32"),
        ];
        assert_eq!(batch.skipped().len(), expected.len());
        for ((index, error), (at, have)) in batch.skipped().iter().zip(expected) {
            assert_eq!(*index, at);
            assert!(error.to_string().contains(have), "{index}: {error}");
        }
    });
}
