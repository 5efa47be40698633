//! Out of memory is an error of its own.

use cuda_um::sys::cudaError;
use cuda_um_testkit::without_pools;
use um_backend::sim::{Builder, Fail, Gpu};
use um_backend::{Buffer, CudaBuffer, CudaError, DType};

use crate::contents;
use crate::support::{on_each, on_each_preset, on_preset};

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

/// The same for unified memory, on a device with little memory.
#[test]
fn fail_on_a_small_device() {
    for gpu in [Gpu::H200, Gpu::NoConcurrentAccess] {
        let small = |builder: Builder| builder.total_memory_bytes(2 << 30);
        on_preset(gpu, small, |machine| {
            let backend = machine.backend();
            let memory = backend.device().memory_info().unwrap();
            assert!(memory.total_bytes <= 2 << 30);
            let len = memory.free_bytes / 4 + 1;
            match backend.allocate_unified::<f32>(len) {
                Err(CudaError::OutOfMemory {
                    requested_bytes,
                    free_bytes,
                    total_bytes,
                    ..
                }) => {
                    assert_eq!(requested_bytes, len * 4);
                    assert_eq!(free_bytes, memory.free_bytes);
                    assert_eq!(total_bytes, memory.total_bytes);
                }
                other => panic!("{other:?}"),
            }
        });
    }
}

/// Failures of one call of CUDA each.
#[test]
fn fail_as_cuda_reports() {
    on_each_preset(
        |builder| builder,
        |machine| {
            let sim = machine.sim.as_ref().unwrap();
            let backend = machine.backend();
            without_pools(backend.device());
            let memory = backend.device().memory_info().unwrap();
            let strike = |call| {
                sim.fail(
                    Fail::call(call)
                        .nth(1)
                        .with(cudaError::cudaErrorMemoryAllocation),
                )
            };
            let unified_call = if machine.has_good_managed_memory() {
                "cudaMallocManaged"
            } else {
                "cudaHostAlloc"
            };
            strike("cudaMalloc");
            strike("cudaMallocAsync");
            let of_device = backend.create_buffer::<f32>(100, DType::F32).map(drop);
            sim.clear_failures();
            strike(unified_call);
            let of_unified = backend.allocate_unified::<f32>(100).map(drop);
            strike("cudaHostAlloc");
            let of_pinned = backend.create_pinned::<f32>(100).map(drop);
            for (outcome, on_device) in [
                (of_device, true),
                (of_unified, machine.has_good_managed_memory()),
                (of_pinned, false),
            ] {
                match outcome {
                    Err(CudaError::OutOfMemory {
                        subject,
                        requested_bytes,
                        free_bytes,
                        ..
                    }) => {
                        assert_eq!(requested_bytes, 400, "{subject}");
                        assert!(!on_device || free_bytes == memory.free_bytes, "{subject}");
                        assert!(!subject.is_empty());
                    }
                    other => panic!("{other:?}, on the device: {on_device}"),
                }
            }
            // Another failure is another variant, and the next call works.
            sim.fail(Fail::call(unified_call).with(cudaError::cudaErrorInvalidValue));
            let error = backend.allocate_unified::<f32>(100).unwrap_err();
            assert!(matches!(error, _), "{error:?}");
            assert_eq!(backend.allocate_unified::<f32>(100).unwrap().len(), 100);
        },
    );
}
