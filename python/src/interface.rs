//! The CUDA Array Interface, and NumPy's.
#![allow(unsafe_code, reason = "hands out an address")]

use pyo3::exceptions::PyAttributeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict};
use um_dlpack::ConsumerOrder;

use crate::array::Array;
use crate::dtype;
use crate::errors::{OrRaise, of_python};
use crate::outside::{dict, int, shape, string, tuple};
use crate::stream::handle;

/// The interface's version 3. The consumer orders its work after the library's stream.
pub(crate) fn cuda<'py>(array: &Array, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
    let stream = array.backend.device().stream();
    let address = py.detach(|| {
        // SAFETY: as for exports through DLPack; a consumer keeps the array alive by a reference.
        let address = unsafe { array.buffer.export_address(ConsumerOrder::Stream(stream)) };
        address.map(|address| address.expose_provenance())
    });
    let address = match address {
        // `hasattr` must say that memory of the host has no such interface.
        Err(refused @ um_dlpack::Error::Target { .. }) => {
            return Err(of_python::<PyAttributeError>(py, &refused.to_string()));
        }
        address => address.or_raise()?,
    };
    let address = if array.storage().is_empty() {
        0
    } else {
        address
    };
    let interface = of(array, py, address, array.read_only)?;
    interface.set_item(string(py, "strides")?, py.None())?;
    interface.set_item(string(py, "stream")?, int(py, handle(stream))?)?;
    Ok(interface)
}

/// What the interfaces of NumPy and of CUDA have in common.
pub(crate) fn of<'py>(
    array: &Array,
    py: Python<'py>,
    address: usize,
    read_only: bool,
) -> PyResult<Bound<'py, PyDict>> {
    let data = [
        int(py, address as u64),
        Ok(PyBool::new(py, read_only).to_owned().into_any()),
    ];
    let code = string(py, &dtype::code(array.dtype_of()))?;
    dict(
        py,
        [
            (c"shape", shape(py, &array.shape)?.into_any()),
            (c"typestr", code.into_any()),
            (c"data", tuple(py, data)?.into_any()),
            (c"version", int(py, 3)?),
        ],
    )
}
