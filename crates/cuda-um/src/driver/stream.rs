//! Streams and events.

use crate::driver::api::Api;
use crate::driver::check::Subject;
use crate::error::Result;
use crate::sync::assert_may_wait;
use cuda_um_sys as sys;
use std::time::Duration;

impl Api {
    /// Creates a stream that does not synchronize with the legacy default stream.
    pub(crate) fn stream_create(&self, ordinal: u32) -> Result<sys::cudaStream_t> {
        let mut stream = std::ptr::null_mut();
        self.on(
            ordinal,
            "cudaStreamCreateWithFlags",
            || Subject::device(ordinal),
            |table| {
                // SAFETY: the pointer is valid for one write.
                unsafe {
                    (table.cudaStreamCreateWithFlags)(&mut stream, sys::cudaStreamNonBlocking)
                }
            },
        )?;
        self.has_stream(ordinal);
        Ok(stream)
    }

    /// Must be called when the library gets a stream of the device: if the device is later reported missing, it is lost.
    pub(crate) fn has_stream(&self, ordinal: u32) {
        let mut worked = self.worked.lock();
        if !worked.contains(&ordinal) {
            worked.push(ordinal);
        }
    }

    /// # Safety
    ///
    /// The stream is live and destroyed once. Enqueued work still completes.
    pub(crate) unsafe fn stream_destroy(
        &self,
        ordinal: u32,
        stream: sys::cudaStream_t,
    ) -> Result<()> {
        self.on_release(
            ordinal,
            "cudaStreamDestroy",
            || Subject::device(ordinal),
            |table| {
                // SAFETY: guaranteed by the caller.
                unsafe { (table.cudaStreamDestroy)(stream) }
            },
        )
    }

    /// # Safety
    ///
    /// The stream is live.
    pub(crate) unsafe fn stream_synchronize(
        &self,
        ordinal: u32,
        stream: sys::cudaStream_t,
    ) -> Result<()> {
        assert_may_wait();
        self.on(
            ordinal,
            "cudaStreamSynchronize",
            || Subject::device(ordinal),
            |table| {
                // SAFETY: guaranteed by the caller.
                unsafe { (table.cudaStreamSynchronize)(stream) }
            },
        )
    }

    /// Makes the stream write a value to pinned memory after its earlier work. Returns `None` if the driver cannot: before CUDA 12.0.
    ///
    /// # Safety
    ///
    /// The stream is live. The address is aligned, and it is pinned memory that stays until the write is done; the host accesses it only as an
    /// atomic.
    pub(crate) unsafe fn stream_write_value(
        &self,
        ordinal: u32,
        stream: sys::cudaStream_t,
        address: *mut u32,
        value: u32,
    ) -> Option<Result<()>> {
        let write = self.driver().ok()?.cuStreamWriteValue32?;
        Some(self.on_driver(
            ordinal,
            "cuStreamWriteValue32",
            || Subject::device(ordinal),
            // SAFETY: guaranteed by the caller; the runtime's and the driver's streams are the same handles. Flags 0: earlier writes are
            // visible before this one.
            |_| unsafe { write(stream.cast(), address as usize as _, value, 0) },
        ))
    }

    /// Returns true if all enqueued work is done.
    ///
    /// # Safety
    ///
    /// The stream is live.
    pub(crate) unsafe fn stream_query(
        &self,
        ordinal: u32,
        stream: sys::cudaStream_t,
    ) -> Result<bool> {
        let mut ready = true;
        self.on(
            ordinal,
            "cudaStreamQuery",
            || Subject::device(ordinal),
            |table| {
                // SAFETY: guaranteed by the caller.
                self.not_ready(unsafe { (table.cudaStreamQuery)(stream) }, &mut ready)
            },
        )?;
        Ok(ready)
    }

    /// # Safety
    ///
    /// The stream and the event are live, and the event has been recorded.
    pub(crate) unsafe fn stream_wait_event(
        &self,
        ordinal: u32,
        stream: sys::cudaStream_t,
        event: sys::cudaEvent_t,
    ) -> Result<()> {
        self.on(
            ordinal,
            "cudaStreamWaitEvent",
            || Subject::device(ordinal),
            |table| {
                // SAFETY: guaranteed by the caller.
                unsafe { (table.cudaStreamWaitEvent)(stream, event, 0) }
            },
        )
    }

    /// Creates an event. A wait for an event without timing yields the processor.
    pub(crate) fn event_create(&self, ordinal: u32, timed: bool) -> Result<sys::cudaEvent_t> {
        let flags = sys::cudaEventBlockingSync
            | if timed {
                0
            } else {
                sys::cudaEventDisableTiming
            };
        let mut event = std::ptr::null_mut();
        self.on(
            ordinal,
            "cudaEventCreateWithFlags",
            || Subject::device(ordinal),
            |table| {
                // SAFETY: the pointer is valid for one write.
                unsafe { (table.cudaEventCreateWithFlags)(&mut event, flags) }
            },
        )?;
        Ok(event)
    }

    /// # Safety
    ///
    /// The event is live and destroyed once.
    pub(crate) unsafe fn event_destroy(&self, ordinal: u32, event: sys::cudaEvent_t) -> Result<()> {
        self.on_release(
            ordinal,
            "cudaEventDestroy",
            || Subject::device(ordinal),
            |table| {
                // SAFETY: guaranteed by the caller.
                unsafe { (table.cudaEventDestroy)(event) }
            },
        )
    }

    /// # Safety
    ///
    /// The event and the stream are live and belong to one device.
    pub(crate) unsafe fn event_record(
        &self,
        ordinal: u32,
        event: sys::cudaEvent_t,
        stream: sys::cudaStream_t,
    ) -> Result<()> {
        self.on(
            ordinal,
            "cudaEventRecord",
            || Subject::device(ordinal),
            |table| {
                // SAFETY: guaranteed by the caller.
                unsafe { (table.cudaEventRecord)(event, stream) }
            },
        )
    }

    /// Returns true if all work before the event's last record is done.
    ///
    /// # Safety
    ///
    /// The event is live.
    pub(crate) unsafe fn event_query(&self, ordinal: u32, event: sys::cudaEvent_t) -> Result<bool> {
        let mut ready = true;
        self.on(
            ordinal,
            "cudaEventQuery",
            || Subject::device(ordinal),
            |table| {
                // SAFETY: guaranteed by the caller.
                self.not_ready(unsafe { (table.cudaEventQuery)(event) }, &mut ready)
            },
        )?;
        Ok(ready)
    }

    /// # Safety
    ///
    /// The event is live.
    pub(crate) unsafe fn event_synchronize(
        &self,
        ordinal: u32,
        event: sys::cudaEvent_t,
    ) -> Result<()> {
        assert_may_wait();
        self.on(
            ordinal,
            "cudaEventSynchronize",
            || Subject::device(ordinal),
            |table| {
                // SAFETY: guaranteed by the caller.
                unsafe { (table.cudaEventSynchronize)(event) }
            },
        )
    }

    /// # Safety
    ///
    /// Both events are live, have timing, and belong to one device.
    pub(crate) unsafe fn event_elapsed(
        &self,
        ordinal: u32,
        start: sys::cudaEvent_t,
        end: sys::cudaEvent_t,
    ) -> Result<Duration> {
        let mut milliseconds = 0.0;
        self.on(
            ordinal,
            "cudaEventElapsedTime",
            || Subject::device(ordinal),
            |table| {
                // SAFETY: the first pointer is valid for one write; the events are guaranteed by the caller.
                unsafe { (table.cudaEventElapsedTime)(&mut milliseconds, start, end) }
            },
        )?;
        Ok(Duration::try_from_secs_f64(f64::from(milliseconds) / 1e3).unwrap_or_default())
    }

    /// Converts "not ready" to a success, because it is not a failure.
    fn not_ready(&self, code: sys::cudaError_t, ready: &mut bool) -> sys::cudaError_t {
        if code == sys::cudaError::cudaErrorNotReady {
            self.clear_last_error();
            *ready = false;
            return sys::cudaError::cudaSuccess;
        }
        code
    }
}
