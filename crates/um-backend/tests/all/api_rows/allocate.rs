//! The calls that make buffers.

use std::sync::Arc;

use um_backend::{Buffer, CudaDevice, CudaError, DType, UnifiedBuffer, cuda_um::Error};

use super::contents;
use crate::support::on_each;

#[test]
fn allocate() {
    on_each(|machine| {
        let backend = machine.backend();
        let device: Arc<CudaDevice> = Arc::new(backend.device().clone());
        let size = 1000;

        let mut inferred = backend.allocate_unified(size).unwrap();
        inferred.copy_from_host(&vec![7_u16; size]).unwrap();
        assert_eq!(inferred.as_slice().unwrap()[..], [7; 1000]);

        let in_device_memory = backend.create_buffer::<f32>(size, DType::F32).unwrap();
        let unified = UnifiedBuffer::<f32>::new(Arc::clone(&device), 1024, DType::F32).unwrap();
        let pinned = backend.create_pinned::<f32>(size).unwrap();
        let host = backend.create_host::<f32>(size).unwrap();
        let all: [(&dyn Buffer<f32>, usize); 4] = [
            (&in_device_memory, size),
            (&unified, 1024),
            (&pinned, size),
            (&host, size),
        ];
        for (buffer, len) in all {
            assert_eq!(buffer.len(), len);
            assert_eq!(contents(buffer), vec![0.0; len]);
        }
        assert_eq!(unified.device().ordinal(), 0);
        assert_eq!(unified.device().to_string(), "cuda:0");
        assert!(host.device().is_none());

        let mismatches = [
            backend.create_buffer::<f32>(4, DType::F64).err(),
            UnifiedBuffer::<f32>::new(Arc::clone(&device), 4, DType::F64).err(),
        ];
        for mismatch in mismatches {
            match mismatch {
                Some(CudaError::DTypeMismatch {
                    requested, element, ..
                }) => {
                    assert_eq!((requested, element), ("f64".to_owned(), "f32".to_owned()));
                }
                other => panic!("{other:?}"),
            }
        }

        let too_large = [
            backend.allocate_unified::<f64>(usize::MAX).err(),
            backend.create_buffer::<f64>(usize::MAX, DType::F64).err(),
            backend.create_pinned::<f64>(usize::MAX).err(),
            backend.create_host::<f64>(usize::MAX).err(),
        ];
        for error in too_large {
            match error {
                Some(Error::TooLarge { len, element_bytes }) => {
                    assert_eq!((len, element_bytes), (usize::MAX, 8));
                }
                other => panic!("{other:?}"),
            }
        }
    });
}
