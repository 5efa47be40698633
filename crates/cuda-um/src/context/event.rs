//! Events: points on a stream.
#![allow(unsafe_code, reason = "passes event handles to CUDA")]

use crate::context::capture;
use crate::context::device::DeviceState;
use crate::context::runtime::Runtime;
use crate::context::stream::{Stream, StreamInner};
use crate::driver::owned::Owned;
use crate::error::{Error, Result};
use crate::sync::time_limit;
use cuda_um_sys::cudaEvent_t;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a wait polls before it sleeps.
pub(crate) const POLLING: Duration = time_limit(Duration::from_micros(50));

/// A point on a [`Stream`]. It is complete when all work that was enqueued before it is done. A clone is the same event.
///
/// ```
/// # let device = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env().unwrap().table())?.device(0)?;
/// use cuda_um::{Event, Stream, UnifiedBuffer};
///
/// let stream = device.create_stream()?;
/// let mut data = UnifiedBuffer::<u8>::zeroed(&device, 4096)?;
/// let before = Event::timed(&stream)?;
/// data.fill_on(1, &stream)?;
/// let after = Event::timed(&stream)?;
/// println!("{:?}", after.elapsed_since(&before)?);
/// let other: Stream = device.create_stream()?;
/// other.wait(&after)?; // its later work runs after the fill
/// # Ok::<(), cuda_um::Error>(())
/// ```
#[doc(alias = "cudaEvent_t")]
#[derive(Clone)]
pub struct Event {
    runtime: Runtime,
    raw: Arc<RawEvent>,
    timed: bool,
    /// The capture that the event belongs to, if any: then it is a node of a graph, and no record.
    captured_in: Option<u64>,
}

/// CUDA's event. It is recorded before other code can see it.
pub(crate) struct RawEvent(Owned<cudaEvent_t>);

/// Turns of a loop between two queries: about a microsecond.
const PAUSE: usize = 32;

impl Event {
    /// Creates an event with a time and records it on the stream.
    ///
    /// # Errors
    ///
    /// Errors of `cudaEventCreateWithFlags` and `cudaEventRecord`.
    #[doc(alias = "cudaEventRecord")]
    pub fn timed(stream: &Stream) -> Result<Self> {
        let reason =
            "a captured event has no time: record it before or after a launch of the graph";
        let inner = stream.uncaptured("Event::timed", reason)?;
        let raw = RawEvent::create(inner.device(), true)?.record(inner)?;
        Ok(Self {
            timed: true,
            ..Self::of(stream, Arc::new(raw), None)
        })
    }

    pub(crate) fn of(stream: &Stream, raw: Arc<RawEvent>, captured_in: Option<u64>) -> Self {
        Self {
            runtime: stream.runtime().clone(),
            raw,
            timed: false,
            captured_in,
        }
    }

    pub(crate) fn captured_in(&self) -> Option<u64> {
        self.captured_in
    }

    /// Refuses an event of a capture, which is recorded nowhere.
    pub(crate) fn check_recorded(&self, call: &'static str) -> Result<()> {
        match self.captured_in {
            None => Ok(()),
            Some(_) => Err(capture::refused(
                format_args!("{call} with an event of a capture"),
                "the event is a point in the graph, and only streams of the same capture wait for it: record an event after a launch of the graph",
            )),
        }
    }

    /// Waits until the event is complete.
    ///
    /// # Errors
    ///
    /// Errors of `cudaEventSynchronize`, which include failures of earlier work.
    #[doc(alias = "cudaEventSynchronize")]
    pub fn synchronize(&self) -> Result<()> {
        self.check_recorded("Event::synchronize")?;
        self.raw.synchronize()
    }

    /// Returns true if the event is complete. Does not wait.
    ///
    /// # Errors
    ///
    /// Errors of `cudaEventQuery`, which include failures of earlier work.
    #[doc(alias = "cudaEventQuery")]
    pub fn is_complete(&self) -> Result<bool> {
        self.check_recorded("Event::is_complete")?;
        self.raw.is_complete()
    }

    /// The device's time from `earlier` to this event. Waits until both are complete.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if one of them has no time (see [`Event::timed`]), [`Error::DeviceMismatch`] and
    /// [`Error::RuntimeMismatch`], and errors of the CUDA functions.
    #[doc(alias = "cudaEventElapsedTime")]
    pub fn elapsed_since(&self, earlier: &Self) -> Result<Duration> {
        if !self.runtime.is_same(&earlier.runtime) {
            return Err(Error::RuntimeMismatch {
                what: "the earlier event",
            });
        }
        let (expected, found) = (self.raw.0.ordinal(), earlier.raw.0.ordinal());
        if expected != found {
            return Err(Error::DeviceMismatch {
                what: "the earlier event",
                expected,
                found,
            });
        }
        if !(self.timed && earlier.timed) {
            return Err(Error::InvalidArgument {
                what: "the event",
                value: "without a time".to_owned(),
                reason: "only events of Event::timed have one".to_owned(),
            });
        }
        earlier.synchronize()?;
        self.synchronize()?;
        // SAFETY: both events are live, have timing, and belong to this device.
        unsafe {
            let api = self.raw.0.api();
            api.event_elapsed(expected, earlier.raw.raw(), self.raw.raw())
        }
    }

    pub(crate) fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    pub(crate) fn raw(&self) -> &Arc<RawEvent> {
        &self.raw
    }
}

impl RawEvent {
    pub(crate) fn create(device: &DeviceState, timed: bool) -> Result<Self> {
        let raw = device.api.event_create(device.ordinal, timed)?;
        // SAFETY: the event is new. CUDA keeps the state that streams still wait for when an event is destroyed.
        Ok(Self(unsafe {
            Owned::new(&device.api, device.ordinal, raw)
        }))
    }

    /// Records the event at the stream's end. Only the caller has the event, so no other code waits for an older record.
    pub(crate) fn record(self, stream: &StreamInner) -> Result<Self> {
        self.record_again(stream)?;
        Ok(self)
    }

    /// Records the event again. Waits for an older record are not affected, but `self` is complete when the new record is.
    pub(crate) fn record_again(&self, stream: &StreamInner) -> Result<()> {
        // SAFETY: both are live; the event was made on the stream's device.
        unsafe {
            let api = self.0.api();
            api.event_record(self.0.ordinal(), self.raw(), stream.raw())
        }
    }

    pub(crate) fn raw(&self) -> cudaEvent_t {
        self.0.raw()
    }

    /// Waits for the event. Polls at first, because waking up takes longer than most work.
    pub(crate) fn wait(&self) -> Result<()> {
        let start = Instant::now();
        while !self.is_complete()? {
            if start.elapsed() >= POLLING {
                return self.synchronize();
            }
            // Queries of several threads would wait for the driver's lock.
            (0..PAUSE).for_each(|_| std::hint::spin_loop());
        }
        Ok(())
    }

    pub(crate) fn synchronize(&self) -> Result<()> {
        // SAFETY: the event is live as long as `self`.
        unsafe { self.0.api().event_synchronize(self.0.ordinal(), self.raw()) }
    }

    pub(crate) fn is_complete(&self) -> Result<bool> {
        // SAFETY: the event is live as long as `self`.
        unsafe { self.0.api().event_query(self.0.ordinal(), self.raw()) }
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { raw, timed, .. } = self;
        f.debug_struct("Event")
            .field("device", &raw.0.ordinal())
            .field("timed", timed)
            .finish_non_exhaustive()
    }
}
