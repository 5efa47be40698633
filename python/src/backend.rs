//! The backends of the process: one for each device, over one runtime.

use std::collections::HashMap;

use cuda_um_sys::locks::Mutex;
use pyo3::prelude::*;
use um_backend::cuda_um::fork::PerProcess;
use um_backend::{CudaBackend, CudaBackendConfig};

use crate::errors::without_lock;

/// The first backend opens the runtime; those of other devices are its siblings.
///
/// As each lock of this package, a thread takes it only while it has Python's lock, and neither runs Python nor waits under it.
static BACKENDS: PerProcess<Mutex<HashMap<usize, CudaBackend>>> = PerProcess::new(Mutex::default);

/// The backend of a device. Opens the runtime that `CUDA_UM_RUNTIME` selects: by default the GPU if there is one, otherwise the simulator.
pub(crate) fn backend(py: Python<'_>, device: usize) -> PyResult<CudaBackend> {
    let known = {
        let known = BACKENDS.get().lock();
        let any = known.values().next().cloned();
        known.get(&device).cloned().map(Ok).or(any.map(Err))
    };
    // Opened without a lock: opening takes long, and may fail.
    let opened = match known {
        Some(Ok(backend)) => return Ok(backend),
        Some(Err(other)) => without_lock(py, || other.sibling(device))?,
        None => without_lock(py, || {
            CudaBackend::initialize_blocking(CudaBackendConfig::default().device(device))
        })?,
    };
    let mut known = BACKENDS.get().lock();
    Ok(known.entry(device).or_insert(opened).clone())
}

/// Every backend that was opened.
pub(crate) fn opened(_py: Python<'_>) -> Vec<CudaBackend> {
    BACKENDS.get().lock().values().cloned().collect()
}
