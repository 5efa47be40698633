//! Streams of other libraries.
#![allow(unsafe_code, reason = "adopts a handle")]

use pyo3::prelude::*;
use um_backend::{Stream, cuda_um::Error};

use crate::array::Array;
use crate::errors::{OrRaise, argument, message};

/// `cudaStreamPerThread`.
const PER_THREAD: u64 = 2;

/// The stream with this handle, for one call: the other library may destroy it later. None for the default stream of a thread, which the
/// library does not work on: then the host waits instead.
pub(crate) fn adopt(array: &Array, py: Python<'_>, handle: u64) -> PyResult<Option<Stream>> {
    if handle == PER_THREAD {
        return Ok(None);
    }
    let (device, raw) = (array.backend.device(), handle as usize);
    let adopted = py.detach(|| {
        let raw = std::ptr::with_exposed_provenance_mut(raw);
        // SAFETY: the caller passes a stream that lives during the call, as the protocols of array libraries require.
        unsafe { device.adopt_stream(raw, ()) }
    });
    match adopted {
        Err(refused @ Error::Foreign { .. }) => Err(argument(message(&refused))),
        adopted => adopted.map(Some).or_raise(),
    }
}

/// The handle of a stream, as the protocols of array libraries write it: the legacy default stream is 1.
pub(crate) fn handle(stream: &Stream) -> u64 {
    match stream.as_raw().addr() as u64 {
        0 => 1,
        handle => handle,
    }
}
