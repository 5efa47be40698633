//! The CUDA Array Interface.
#![allow(unsafe_code, reason = "hands out an address")]

use pyo3::exceptions::PyAttributeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use um_dlpack::Ordering;

use crate::array::Array;
use crate::dtype;
use crate::errors::OrRaise;
use crate::stream::handle;

/// The interface's version 3. The consumer orders its work after the library's stream.
pub(crate) fn cuda<'py>(array: &Array, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
    let stream = array.backend.device().stream();
    let address = py.detach(|| {
        // SAFETY: as for exports through DLPack; a consumer keeps the array alive by a reference.
        let address = unsafe { array.buffer.export_address(Ordering::Stream(stream)) };
        address.map(|address| address.expose_provenance())
    });
    let address = match address {
        // `hasattr` must say that memory of the host has no such interface.
        Err(refused @ um_dlpack::Error::Target { .. }) => {
            return Err(PyAttributeError::new_err(refused.to_string()));
        }
        address => address.or_raise()?,
    };
    let interface = PyDict::new(py);
    interface.set_item("shape", PyTuple::new(py, &array.shape)?)?;
    interface.set_item("typestr", dtype::code(array.dtype_of()))?;
    interface.set_item(
        "data",
        (
            if array.storage().is_empty() {
                0
            } else {
                address
            },
            array.read_only,
        ),
    )?;
    interface.set_item("version", 3)?;
    interface.set_item("strides", py.None())?;
    interface.set_item("stream", handle(stream))?;
    Ok(interface)
}
