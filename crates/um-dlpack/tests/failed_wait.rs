//! A wait for the work of another library fails. In a process of its own, because the error is that of the next `settle` on any thread.
#![allow(unsafe_code, reason = "exports are promises of the program")]

use std::sync::OnceLock;

use um_backend::cuda_um::sys::cudaError;
use um_backend::sim::{Fail, Sim};
use um_backend::{BufferKind, CudaBackend, CudaBackendConfig, DType, SharedBuffer};
use um_dlpack::{DlpackBuffer, ExportOptions, versioned};

/// Keeps the leaked memory in reach, so that LeakSanitizer does not report it.
static LEAKED: OnceLock<SharedBuffer> = OnceLock::new();

#[test]
fn memory_is_leaked_and_the_error_is_told_once() {
    let sim = Sim::from_env().unwrap();
    let config = CudaBackendConfig::default().simulator(sim.clone());
    let backend = CudaBackend::initialize_blocking(config).unwrap();
    let erased = backend.create_erased(BufferKind::Cuda, DType::U8, 100);
    let storage = LEAKED.get_or_init(|| SharedBuffer::new(erased.unwrap()));
    let buffer = DlpackBuffer::new(storage.clone());
    // SAFETY: nothing consumes the tensor.
    let tensor = unsafe { buffer.export(&[100], &ExportOptions::default()) };
    let tensor: versioned::Dlpack = tensor.unwrap();
    sim.fail(Fail::call("cudaDeviceSynchronize").with(cudaError::cudaErrorInvalidValue));
    drop((buffer, tensor));
    let error = um_dlpack::settle().unwrap_err();
    let is_typed = matches!(error, _);
    assert!(
        is_typed && error.to_string().contains("cudaDeviceSynchronize"),
        "{error}"
    );
    um_dlpack::settle().unwrap();
    assert!(!storage.is_unique(), "the handle is leaked");
}
