//! The backends of the process: one for each device, over one runtime.

use std::collections::HashMap;

use parking_lot::Mutex;
use pyo3::prelude::*;
use um_backend::{CudaBackend, CudaBackendConfig};

use crate::errors::without_lock;

/// The first backend opens the runtime; those of other devices are its siblings.
static BACKENDS: Mutex<Option<HashMap<usize, CudaBackend>>> = Mutex::new(None);

/// The backend of a device. Opens the runtime that `CUDA_UM_RUNTIME` selects: by default the GPU if there is one, otherwise the simulator.
pub(crate) fn backend(py: Python<'_>, device: usize) -> PyResult<CudaBackend> {
    without_lock(py, || open(device))
}

fn open(device: usize) -> um_backend::Result<CudaBackend> {
    let known = BACKENDS.lock().as_ref().and_then(|known| {
        let any = known.values().next().cloned();
        known.get(&device).cloned().map(Ok).or(any.map(Err))
    });
    // Opened without the lock: opening takes long, and may fail.
    let opened = match known {
        Some(Ok(backend)) => return Ok(backend),
        Some(Err(other)) => other.sibling(device)?,
        None => CudaBackend::initialize_blocking(CudaBackendConfig::default().device(device))?,
    };
    let mut known = BACKENDS.lock();
    let kept = known
        .get_or_insert_default()
        .entry(device)
        .or_insert(opened);
    Ok(kept.clone())
}

/// Every backend that was opened.
pub(crate) fn opened() -> Vec<CudaBackend> {
    BACKENDS
        .lock()
        .iter()
        .flat_map(HashMap::values)
        .cloned()
        .collect()
}
