//! Advice for unified memory.

use um_backend::{
    Buffer, BufferKind, CudaError, DType, HostBuffer, Location, MemoryAdvice, SharedBuffer,
};

use super::{applied_if, contents, numbers};
use crate::support::on_each;

#[test]
fn advise() {
    use MemoryAdvice::*;
    on_each(|machine| {
        let backend = machine.backend();
        let data = numbers(4096);
        let mut buffer = backend.allocate_unified(data.len()).unwrap();
        buffer.copy_from_host(&data).unwrap();
        let concurrent = machine.is_concurrent();
        let held = || buffer.range_attributes().unwrap();

        // If the device cannot fault, advice with its location is not applied, which is not an error.
        applied_if(
            concurrent,
            &buffer
                .set_memory_advice(SetPreferredLocation, Some(0))
                .unwrap(),
        );
        if concurrent {
            assert_eq!(held().preferred_location, Some(Location::Device(0)));
        }
        buffer
            .set_memory_advice(UnsetPreferredLocation, None)
            .unwrap();
        if concurrent {
            assert_eq!(held().preferred_location, None);
            applied_if(
                true,
                &buffer
                    .set_memory_advice(SetPreferredLocation, None)
                    .unwrap(),
            );
            assert_eq!(held().preferred_location, Some(Location::Host));
        }
        applied_if(concurrent, &buffer.set_preferred_location(0).unwrap());
        buffer.unset_preferred_location().unwrap();

        applied_if(
            concurrent,
            &buffer.set_memory_advice(SetAccessedBy, Some(0)).unwrap(),
        );
        if concurrent {
            assert_eq!(held().accessed_by, [Location::Device(0)]);
        }
        applied_if(
            concurrent,
            &buffer.set_memory_advice(UnsetAccessedBy, Some(0)).unwrap(),
        );
        applied_if(concurrent, &buffer.set_accessed_by(0).unwrap());
        applied_if(concurrent, &buffer.unset_accessed_by(0).unwrap());
        if concurrent {
            assert_eq!(held().accessed_by, []);
            applied_if(
                true,
                &buffer.set_memory_advice(SetAccessedBy, None).unwrap(),
            );
            assert_eq!(held().accessed_by, [Location::Host]);
        }

        let managed = machine.has_good_managed_memory();
        applied_if(
            managed,
            &buffer.set_memory_advice(SetReadMostly, None).unwrap(),
        );
        if managed {
            assert!(held().read_mostly);
        }
        applied_if(
            managed,
            &buffer.set_memory_advice(UnsetReadMostly, None).unwrap(),
        );
        applied_if(managed, &buffer.set_read_mostly().unwrap());
        applied_if(managed, &buffer.unset_read_mostly().unwrap());
        applied_if(
            managed,
            &backend
                .set_memory_advice(&buffer, SetReadMostly, Some(0))
                .unwrap(),
        );

        let count = machine.backends().len();
        let error = buffer.set_preferred_location(count).unwrap_err();
        assert!(matches!(error, CudaError::NoSuchDevice { .. }), "{error:?}");
        assert_eq!(contents(&buffer), data, "advice changes no value");
    });
}

/// Each line that a report prints can be typed on the storage that a framework has.
#[test]
fn hints_on_every_storage() {
    on_each(|machine| {
        let backend = machine.backend();
        let data = numbers(4096);
        let concurrent = machine.is_concurrent();
        macro_rules! hints {
            ($storage:expr, $applies:expr) => {
                applied_if($applies, &$storage.prefetch_to_device(None).unwrap());
                applied_if($applies, &$storage.set_accessed_by(0).unwrap());
                applied_if($applies, &$storage.unset_accessed_by(0).unwrap());
                applied_if($applies, &$storage.prefetch_to_host().unwrap());
            };
        }
        let unified = backend.allocate_unified::<f32>(data.len()).unwrap();
        let mut boxed: Box<dyn Buffer<f32>> = Box::new(unified);
        boxed.as_slice_mut().unwrap().copy_from_slice(&data);
        hints!(boxed, concurrent);
        applied_if(
            concurrent,
            &backend.prefetch_to_device(&*boxed, Some(0)).unwrap(),
        );
        assert_eq!(*boxed.as_slice().unwrap(), data[..]);

        let on_host: Box<dyn Buffer<f32>> = Box::new(HostBuffer::from_slice(&data).unwrap());
        hints!(on_host, false);

        let mut erased = backend
            .create_erased(BufferKind::Unified, DType::F32, data.len())
            .unwrap();
        hints!(erased, concurrent);
        let typed = erased.typed_mut::<f32>().unwrap();
        typed.as_slice_mut().unwrap().copy_from_slice(&data);
        hints!(typed, concurrent);
        assert_eq!(*typed.as_slice().unwrap(), data[..]);

        let shared = SharedBuffer::new(erased);
        hints!(shared, concurrent);
        hints!(shared.view(2048..4096).unwrap(), concurrent);
        hints!(shared.read().unwrap(), concurrent);
        assert_eq!(*shared.host::<f32>().unwrap(), data[..]);
    });
}
