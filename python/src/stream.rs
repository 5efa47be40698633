//! Streams of other libraries.
#![allow(unsafe_code, reason = "adopts a handle")]

use std::collections::HashMap;

use cuda_um_sys::locks::Mutex;
use pyo3::prelude::*;
use um_backend::allocator::is_captured;
use um_backend::cuda_um::fork::PerProcess;
use um_backend::{CudaBackend, Stream, cuda_um::Error};

use crate::errors::{OrRaise, argument, message};

/// `cudaStreamPerThread`.
const PER_THREAD: u64 = 2;

/// The stream with this handle, for one call: the other library may destroy it later. None for the default stream of a thread, which the
/// library does not work on: then the host waits instead.
pub(crate) fn adopt(
    backend: &CudaBackend,
    py: Python<'_>,
    handle: u64,
) -> PyResult<Option<Stream>> {
    if handle == PER_THREAD {
        return Ok(None);
    }
    let (device, raw) = (backend.device(), handle as usize);
    let adopted = py.detach(|| {
        let raw = std::ptr::with_exposed_provenance_mut(raw);
        // SAFETY: the caller passes a stream that lives during the call, as the protocols of array libraries require.
        unsafe {
            match is_captured(device, raw) {
                true => Err(Error::Capture {
                    call: "a fence".to_owned(),
                    reason: format!("work on the stream {raw:p} is captured into a graph: do it before the capture"),
                }),
                false => device.adopt_stream(raw, ()),
            }
        }
    });
    match adopted {
        Err(refused @ (Error::Foreign { .. } | Error::Capture { .. })) => {
            Err(argument(message(&refused)))
        }
        adopted => adopted.map(Some).or_raise(),
    }
}

/// The streams of the library that stand for those of other libraries, by the ordinal of the device and a part of the handle.
static LANES: PerProcess<Mutex<HashMap<(u32, u64), Stream>>> = PerProcess::new(Mutex::default);

/// A stream of the library that stands for another library's: work for two of those overlaps.
pub(crate) fn lane(backend: &CudaBackend, handle: u64) -> um_backend::Result<Stream> {
    let device = backend.device();
    let key = (device.ordinal(), handle / 64 % 8);
    if let Some(known) = LANES.get().lock().get(&key) {
        return Ok(known.clone());
    }
    let new = device.create_stream()?;
    Ok(LANES.get().lock().entry(key).or_insert(new).clone())
}

/// Runs work on a stream of the library, as if it was work of streams of other libraries: memory remembers the stream of its work, and those may be
/// destroyed.
pub(crate) fn between<R, E: From<Error>>(
    backend: &CudaBackend,
    own: &Stream,
    theirs: &[Option<Stream>],
    work: impl FnOnce(&Stream) -> Result<R, E>,
) -> Result<R, E> {
    for theirs in theirs {
        match theirs {
            Some(theirs) => own.wait(&theirs.record()?)?,
            None => backend.synchronize()?,
        }
    }
    let result = work(own)?;
    for theirs in theirs {
        match theirs {
            Some(theirs) => theirs.wait(&own.record()?)?,
            None => own.synchronize()?,
        }
    }
    Ok(result)
}

/// The handle of a stream, as the protocols of array libraries write it: the legacy default stream is 1.
pub(crate) fn handle(stream: &Stream) -> u64 {
    match stream.as_raw().addr() as u64 {
        0 => 1,
        handle => handle,
    }
}
