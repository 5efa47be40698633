//! Out of memory is an error of its own.

use um_backend::{Buffer, CudaBuffer, CudaError, DType};

use super::contents;
use crate::support::on_each;

/// A request beyond the free memory: the error has the numbers of the device.
#[test]
fn fail() {
    on_each(|machine| {
        let backend = machine.backend();
        let memory = backend.device().memory_info().unwrap();
        let len = memory.total_bytes / 4 + (1 << 20);
        let attempt =
            || -> Result<CudaBuffer<f32>, CudaError> { backend.create_buffer(len, DType::F32) };
        match attempt() {
            Err(CudaError::OutOfMemory {
                requested_bytes,
                free_bytes,
                total_bytes,
                ..
            }) => {
                assert_eq!(requested_bytes, len * 4);
                assert_eq!(total_bytes, memory.total_bytes);
                assert!(free_bytes < requested_bytes);
                if machine.sim.is_some() {
                    assert_eq!(free_bytes, memory.free_bytes);
                }
            }
            other => panic!("{other:?}"),
        }
        let error = attempt().unwrap_err();
        assert!(error.is_out_of_memory() && !error.is_sticky());
        assert_eq!(error.to_string().lines().count(), 1, "{error}");
        assert_eq!(
            format!("{error:?}"),
            error.to_string(),
            "what `main` prints"
        );
        let other = backend.create_buffer::<f32>(4, DType::F64).unwrap_err();
        assert!(!other.is_out_of_memory(), "{other:?}");

        let small = backend.create_buffer::<f32>(10, DType::F32).unwrap();
        let error = small.clone_empty(len).unwrap_err();
        assert!(error.is_out_of_memory(), "{error:?}");
        assert_eq!(contents(&small), [0.0; 10], "the device still works");
    });
}
