//! Parts of buffers: hints, and disjoint parts in one launch.

use um_backend::{Advice, BufferKind, DType, Location, UnifiedBuffer, kernels};

use crate::support::on_each;

/// Elements of one block of 2 MiB.
const BLOCK: usize = (2 << 20) / 4;

#[test]
fn hints_concern_their_range() {
    on_each(|machine| {
        let backend = machine.backend();
        let stream = backend.device().stream();
        for kind in BufferKind::ALL {
            let buffer = backend.create::<f32>(kind, 4 * BLOCK).unwrap();
            let host = Location::Host;
            let outcome = buffer
                .prefetch_range_on(BLOCK..2 * BLOCK, host, stream)
                .unwrap();
            let pageable = backend.device().capabilities().pageable_memory_access;
            let has_pages = kind == BufferKind::Unified || kind == BufferKind::Host && pageable;
            let migrates = has_pages && machine.is_concurrent();
            assert_eq!(outcome.is_applied(), migrates, "{kind}: {outcome}");
            let outcome = buffer
                .advise_range(BLOCK..2 * BLOCK, Advice::SetReadMostly)
                .unwrap();
            if !migrates || kind == BufferKind::Host {
                continue;
            }
            assert!(outcome.is_applied(), "{outcome}");
            backend.synchronize().unwrap();
            let unified = buffer
                .as_any()
                .downcast_ref::<UnifiedBuffer<f32>>()
                .unwrap();
            let all = unified.range_attributes().unwrap();
            assert!(all.last_prefetch != Some(host) && !all.read_mostly);
            for rest in [0..BLOCK, 2 * BLOCK..buffer.len()] {
                buffer.prefetch_range(rest.clone(), host).unwrap();
                buffer.advise_range(rest, Advice::SetReadMostly).unwrap();
            }
            let all = unified.range_attributes().unwrap();
            assert!(all.last_prefetch == Some(host) && all.read_mostly);
        }
    });
}

/// One storage for the weights and the gradient: a kernel reads one part and writes the other.
#[test]
fn disjoint_parts_of_one_buffer_are_arguments_of_one_launch() {
    on_each(|machine| {
        let backend = machine.backend();
        let device = backend.device();
        if device.capabilities().compute_capability < (6, 0) {
            return; // The kernels need compute capability 6.0.
        }
        let saxpy = kernels::Saxpy::load(device).unwrap();
        for kind in [BufferKind::Unified, BufferKind::Cuda, BufferKind::Pinned] {
            let mut storage = backend.create_erased(kind, DType::F32, 8).unwrap();
            let storage = storage.typed_mut::<f32>().unwrap();
            storage.fill_range(0..4, 2.0).unwrap();
            storage.fill_range(4..8, 1.0).unwrap();
            let all = storage.memory_mut().device_view_mut().unwrap();
            let (weights, gradient) = all.split_at(4).unwrap();
            saxpy
                .launch(device.stream(), 0.5, gradient.as_view(), weights)
                .unwrap();
            let expected = [2.5, 2.5, 2.5, 2.5, 1.0, 1.0, 1.0, 1.0];
            assert_eq!(storage.to_vec().unwrap(), expected, "{kind}");
        }
    });
}

#[test]
fn names_stay_with_the_buffer() {
    on_each(|machine| {
        let backend = machine.backend();
        for kind in [BufferKind::Unified, BufferKind::Cuda, BufferKind::Pinned] {
            let mut erased = backend.create_erased(kind, DType::F32, 8).unwrap();
            assert_eq!(erased.bytes().name(), None);
            erased.bytes_mut().set_name("weights");
            assert_eq!(erased.bytes().name(), Some("weights"), "{kind}");
            assert_eq!(
                erased.typed::<f32>().unwrap().name(),
                Some("weights"),
                "{kind}"
            );
        }
    });
}
