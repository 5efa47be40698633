//! Streams and events.

use crate::driver::api::{Api, bit};
use crate::driver::call::How::On;
use crate::driver::call::{OnStream, calls};
use crate::driver::check::Subject;
use crate::error::Result;
use cuda_um_sys::{self as sys, cudaError_t, cudaEvent_t as Event, cudaStream_t as Stream};
use std::sync::atomic::Ordering;
use std::time::Duration;

calls! {
    safe fn create_stream(ordinal, flags: u32) -> stream: Stream
        => runtime.cudaStreamCreateWithFlags(&mut stream, flags);

    /// # Safety: the stream is live and destroyed once. Enqueued work still completes.
    unsafe fn stream_destroy(ordinal, stream: Stream)
        => [Releases] runtime.cudaStreamDestroy(stream);

    /// # Safety: the stream is live.
    unsafe fn stream_synchronize(ordinal, stream: Stream)
        => [Waits] runtime.cudaStreamSynchronize(stream);

    /// Makes the stream write a value to pinned memory after its earlier work. Not every driver can: from CUDA 12.0 on.
    /// # Safety: the stream is live. The address is aligned, and it is pinned memory that stays until the write is done; the host accesses
    /// it only as an atomic.
    unsafe fn stream_write_value(ordinal, stream: OnStream<'_>, address: *mut u32, value: u32)
        // Flags 0: earlier writes are visible before this one.
        => [Within stream] newer_driver.cuStreamWriteValue32(
            stream.raw.cast(),
            address.expose_provenance() as _,
            value,
            0,
        );

    /// # Safety: the stream and the event are live, and the event has been recorded.
    unsafe fn stream_wait_event(ordinal, stream: Stream, event: Event)
        => runtime.cudaStreamWaitEvent(stream, event, 0);

    /// Creates an event. A wait for an event without timing yields the processor.
    safe fn event_create(ordinal, timed: bool) -> event: Event
        => runtime.cudaEventCreateWithFlags(
            &mut event,
            sys::cudaEventBlockingSync | if timed { 0 } else { sys::cudaEventDisableTiming },
        );

    /// # Safety: the event is live and destroyed once.
    unsafe fn event_destroy(ordinal, event: Event)
        => [Releases] runtime.cudaEventDestroy(event);

    /// # Safety: the event and the stream are live and belong to one device.
    unsafe fn event_record(ordinal, event: Event, stream: Stream)
        => runtime.cudaEventRecord(event, stream);

    /// # Safety: the event is live.
    unsafe fn event_synchronize(ordinal, event: Event)
        => [Waits] runtime.cudaEventSynchronize(event);

    /// # Safety: both events are live, have timing, and belong to one device.
    unsafe fn event_elapsed(ordinal, start: Event, end: Event)
        -> milliseconds: f32 as Duration = Ok(duration(milliseconds))
        => runtime.cudaEventElapsedTime(&mut milliseconds, start, end);
}

fn duration(milliseconds: f32) -> Duration {
    Duration::try_from_secs_f64(f64::from(milliseconds) / 1e3).unwrap_or_default()
}

impl Api {
    /// Creates a stream that does not synchronize with the legacy default stream.
    pub(crate) fn stream_create(&self, ordinal: u32) -> Result<Stream> {
        let stream = self.create_stream(ordinal, sys::cudaStreamNonBlocking)?;
        self.has_stream(ordinal);
        Ok(stream)
    }

    /// Must be called when the library gets a stream of the device: if the device is later reported missing, it is lost.
    pub(crate) fn has_stream(&self, ordinal: u32) {
        // Relaxed: it says nothing of other memory.
        self.worked.fetch_or(bit(ordinal), Ordering::Relaxed);
    }

    /// Returns true if all enqueued work is done.
    /// # Safety: the stream is live.
    pub(crate) unsafe fn stream_query(&self, ordinal: u32, stream: Stream) -> Result<bool> {
        // SAFETY: guaranteed by the caller.
        let query = || unsafe { (self.table.cudaStreamQuery)(stream) };
        self.is_ready("cudaStreamQuery", ordinal, query)
    }

    /// Returns true if all work before the event's last record is done.
    /// # Safety: the event is live.
    pub(crate) unsafe fn event_query(&self, ordinal: u32, event: Event) -> Result<bool> {
        // SAFETY: guaranteed by the caller.
        let query = || unsafe { (self.table.cudaEventQuery)(event) };
        self.is_ready("cudaEventQuery", ordinal, query)
    }

    /// Calls a function whose code "not ready" is no failure.
    fn is_ready(
        &self,
        name: &'static str,
        ordinal: u32,
        query: impl Fn() -> cudaError_t,
    ) -> Result<bool> {
        let mut is_ready = true;
        let query = || match query() {
            cudaError_t::cudaErrorNotReady => {
                self.clear_last_error();
                is_ready = false;
                cudaError_t::cudaSuccess
            }
            code => code,
        };
        let call = self.begin(name)?;
        call.run(On(ordinal), query, || Subject::device(ordinal))?;
        Ok(is_ready)
    }
}
