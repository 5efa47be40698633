//! Streams of other libraries.
#![allow(unsafe_code, reason = "passes handles of other libraries to CUDA")]

use crate::context::device::Device;
use crate::context::event::RawEvent;
use crate::context::foreign_owner::ForeignOwner;
use crate::context::stream::{Stream, StreamInner};
use crate::error::{Error, Result};
use cuda_um_sys::{cudaStream_t, cudaStreamPerThread};

impl Device {
    /// Makes a [`Stream`] of another library's stream. The library orders and tracks the work that is enqueued through it like the work on
    /// its own streams, and never destroys it.
    ///
    /// The handles 0 and 1 are the legacy default stream of this device, which synchronizes with the streams that were made without
    /// `cudaStreamNonBlocking`.
    ///
    /// `owner` is dropped when no handle of the stream is left and no tracked work uses it; on any thread, which may call CUDA then. A
    /// panic of its drop is caught. After an error it is dropped at once.
    ///
    /// ```
    /// # let device = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env().unwrap().table())?.device(0)?;
    /// use cuda_um::UnifiedBuffer;
    ///
    /// let theirs = device.create_stream()?; // stands for a stream of another library
    /// // SAFETY: the stream lives as long as `theirs`, its owner.
    /// let stream = unsafe { device.adopt_stream(theirs.as_raw(), theirs.clone())? };
    /// let mut data = UnifiedBuffer::<u32>::zeroed(&device, 100)?;
    /// data.fill_on(7, &stream)?;
    /// assert_eq!(data.host()?[99], 7);
    /// # Ok::<(), cuda_um::Error>(())
    /// ```
    ///
    /// # Ordering
    ///
    /// Work that the other library enqueues on the stream runs in order with work through this `Stream`, but is not tracked: use
    /// [`Stream::enqueue_foreign`](crate::Stream::enqueue_foreign) for work on buffers.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for the handle 2 (`cudaStreamPerThread`), which is another stream on each thread;
    /// [`Error::DeviceMismatch`] for a stream of another device, if the runtime reports it (CUDA 12.8 and newer); [`Error::Foreign`] for a
    /// stream of another context, and for a destroyed stream if CUDA notices it; and the errors of `cudaEventRecord`.
    ///
    /// # Safety
    ///
    /// - The stream is live until `owner` is dropped, and is not being captured into a graph.
    /// - The owner does not wait, in its drop, for a thread that waits for this library.
    #[doc(alias = "cudaStreamGetDevice")]
    #[doc(alias = "ExternalStream")]
    pub unsafe fn adopt_stream(
        &self,
        raw: cudaStream_t,
        owner: impl Send + 'static,
    ) -> Result<Stream> {
        let (api, ordinal) = (self.api(), self.ordinal());
        let owner = ForeignOwner::new(owner);
        if raw == cudaStreamPerThread {
            return Err(Error::InvalidArgument {
                what: "the stream",
                value: "2 (cudaStreamPerThread)".to_owned(),
                reason: "it is another stream on each thread, and any thread waits for the work on buffers: use a stream that all threads share, such as 1 (cudaStreamLegacy)".to_owned(),
            });
        }
        // SAFETY: guaranteed by the caller.
        match unsafe { api.stream_device(ordinal, raw) } {
            Ok(found) if found >= 0 && found as u32 != ordinal => {
                return Err(Error::DeviceMismatch {
                    what: "the stream",
                    expected: ordinal,
                    found: found as u32,
                });
            }
            Ok(_) | Err(Error::NotSupported { .. }) => {}
            Err(error) => return Err(explain(error, raw, ordinal)),
        }
        let event = RawEvent::create(self.state(), false)?;
        // CUDA records an event only on a live stream of the event's context.
        // SAFETY: the event is live; the stream is guaranteed by the caller.
        unsafe { api.event_record(ordinal, event.raw(), raw) }
            .map_err(|error| explain(error, raw, ordinal))?;
        api.has_stream(ordinal);
        let inner = StreamInner::foreign(self.state(), raw, Some(owner));
        Ok(Stream::new(self.runtime().clone(), inner))
    }
}

/// `cudaErrorInvalidResourceHandle`, `cudaErrorDeviceUninitialized` (invalid context), `cudaErrorContextIsDestroyed`.
const NOT_OF_THIS_CONTEXT: [u32; 3] = [400, 201, 709];

/// The error of a call that got a stream of another context, or a destroyed one.
fn explain(error: Error, raw: cudaStream_t, ordinal: u32) -> Error {
    match error {
        Error::Call { code, name, .. } | Error::Sticky { code, name, .. }
            if NOT_OF_THIS_CONTEXT.contains(&code) =>
        {
            Error::Foreign {
                what: format!("the stream {raw:p}"),
                found: format!("of another device or context, or destroyed ({name})"),
                allowed: format!("a live stream of the primary context of device {ordinal}"),
            }
        }
        error => error,
    }
}
