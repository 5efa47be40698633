//! Devices and their memory.

use std::ffi::CStr;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};
use um_backend::cuda_um::MemoryKind;
use um_backend::cuda_um::resource::PoolStats;

use crate::backend::{backend, opened};
use crate::errors::without_lock;
use crate::number::Number;
use crate::outside::{dict, int, shape, string};

/// Returns the number of devices of the runtime: the GPU's, or the simulator's.
#[pyfunction]
pub(crate) fn device_count(py: Python<'_>) -> PyResult<usize> {
    let backend = backend(py, 0)?;
    without_lock(py, || backend.device().runtime().device_count())
}

/// Returns whether the runtime is the simulator, because there is no GPU or `CUDA_UM_RUNTIME=sim`.
#[pyfunction]
pub(crate) fn is_simulated(py: Python<'_>) -> PyResult<bool> {
    Ok(backend(py, 0)?.is_simulated())
}

/// Returns one line with the runtime, the device and, if the simulator was chosen, the reason.
#[pyfunction]
#[pyo3(signature = (device=Number(0)), text_signature = "(device=0)")]
pub(crate) fn runtime_description(
    py: Python<'_>,
    device: Number<usize>,
) -> PyResult<Bound<'_, PyString>> {
    let backend = backend(py, device.0)?;
    string(py, &without_lock(py, || Ok(backend.runtime_description()))?)
}

/// Waits for all work on a device, and until memory that was dropped in use is free, also that of arrays which other libraries had. Without a
/// device: on every device that was used. Its errors are also those of earlier work, and of memory that could not be freed.
#[pyfunction]
#[pyo3(signature = (device=None))]
pub(crate) fn synchronize(py: Python<'_>, device: Option<Number<usize>>) -> PyResult<()> {
    let backends = match device {
        Some(device) => vec![backend(py, device.0)?],
        None => opened(py),
    };
    without_lock(py, || {
        um_dlpack::settle()?;
        for backend in &backends {
            backend.synchronize()?;
            // An import may be the last user of an array that was exported to it.
            backend.device().runtime().reclaim()?;
        }
        um_dlpack::settle()
    })
}

/// Returns a pair: the free and the total bytes of a device.
#[pyfunction]
#[pyo3(signature = (device=Number(0)), text_signature = "(device=0)")]
pub(crate) fn memory_info(py: Python<'_>, device: Number<usize>) -> PyResult<Bound<'_, PyTuple>> {
    let backend = backend(py, device.0)?;
    let info = without_lock(py, || backend.device().memory_info())?;
    shape(py, &[info.free_bytes, info.total_bytes])
}

/// Returns the pools of a device as a dictionary: for "unified", "device" and "pinned" memory the bytes of live arrays, their peak, the bytes that the
/// pool has from CUDA, and the number of live arrays. A pool that was not used is missing.
#[pyfunction]
#[pyo3(signature = (device=Number(0)), text_signature = "(device=0)")]
pub(crate) fn pool_stats(py: Python<'_>, device: Number<usize>) -> PyResult<Bound<'_, PyDict>> {
    let backend = backend(py, device.0)?;
    let kinds = [
        ("unified", MemoryKind::Managed),
        ("device", MemoryKind::Device),
        ("pinned", MemoryKind::Pinned),
    ];
    let found = without_lock(py, || {
        um_dlpack::settle()?;
        Ok(kinds.map(|(name, kind)| (name, backend.pool_stats_of(kind))))
    })?;
    let pools = dict(py, [])?;
    for (name, stats) in found {
        let Some(stats) = stats else { continue };
        pools.set_item(string(py, name)?, pool(py, stats, c"live_arrays")?)?;
    }
    Ok(pools)
}

/// The figures of a pool; `live` is the name of the number of its users.
pub(crate) fn pool<'py>(
    py: Python<'py>,
    stats: PoolStats,
    live: &'static CStr,
) -> PyResult<Bound<'py, PyDict>> {
    dict(
        py,
        [
            (c"live_bytes", int(py, stats.live_bytes as u64)?),
            (c"peak_bytes", int(py, stats.peak_bytes as u64)?),
            (c"reserved_bytes", int(py, stats.reserved_bytes as u64)?),
            (live, int(py, stats.live_buffers as u64)?),
        ],
    )
}

/// Returns the memory that the pools of a device keep to CUDA, and returns its bytes.
#[pyfunction]
#[pyo3(signature = (device=Number(0)), text_signature = "(device=0)")]
pub(crate) fn trim(py: Python<'_>, device: Number<usize>) -> PyResult<Bound<'_, PyAny>> {
    let backend = backend(py, device.0)?;
    let bytes = without_lock(py, || {
        um_dlpack::settle()?;
        Ok(backend.trim())
    })?;
    int(py, bytes as u64)
}
