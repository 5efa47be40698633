//! Streams: work on one stream runs in order, concurrently with other streams.

mod order;

use crate::context::capture::{self, NO_WAIT};
use crate::context::device::{Device, DeviceState};
use crate::context::event::{Event, RawEvent};
use crate::context::foreign_owner::ForeignOwner;
use crate::context::runtime::Runtime;
use crate::context::stream::order::Tails;
use crate::context::streams::{Listed, Tombstone};
use crate::context::tracker::Last;
use crate::driver::Api;
use crate::driver::owned::Owned;
use crate::error::{Error, Result};
use crate::fork;
use crate::process_end::{self, Used};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Mutex, after_unlock};
use cuda_um_sys::{cudaGraph_t, cudaGraphNode_t, cudaStream_t};
use smallvec::SmallVec;
use std::fmt;
use std::sync::{Arc, Weak};

/// A stream: work that is enqueued on it runs in order. A clone is the same stream.
///
/// The library orders work on different streams that uses one buffer: a write waits for earlier uses, a read for the earlier write. A
/// stream stays live as long as a buffer tracks work on it.
///
/// ```
/// # let device = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env().unwrap().table())?.device(0)?;
/// use cuda_um::UnifiedBuffer;
///
/// let stream = device.create_stream()?;
/// let mut data = UnifiedBuffer::<u32>::zeroed(&device, 100)?;
/// data.fill_on(7, &stream)?;
/// stream.synchronize()?;
/// assert!(stream.is_idle()?);
/// # Ok::<(), cuda_um::Error>(())
/// ```
#[doc(alias = "cudaStream_t")]
#[derive(Clone)]
pub struct Stream {
    runtime: Runtime,
    inner: Arc<StreamInner>,
}

/// CUDA's stream, and a count of the work enqueued on it.
///
/// Each piece of work gets a number after it is enqueued. An event that is recorded after the count was read covers all work up to that
/// count, so an event is recorded only when code waits for the work.
pub(crate) struct StreamInner {
    /// A number for traces that identifies the stream.
    id: u64,
    /// The word of uses that its later work follows.
    pub(super) followed: Last,
    device: Arc<DeviceState>,
    raw: Owned<cudaStream_t>,
    /// The owner of a stream of another library, dropped after the last use of the handle.
    owner: Option<ForeignOwner>,
    /// True for work of another library, on streams that are not known: only a wait for the device waits for it. No call gets the handle.
    is_unknown: bool,
    submitted: AtomicU64,
    completed: AtomicU64,
    /// The position at which the driver was last asked for free memory, by 1,024.
    asked: AtomicU64,
    tails: Mutex<Tails>,
    /// The positions on other streams that this stream waits for. The address identifies the stream: a `Weak` keeps it from reuse.
    waited: Mutex<SmallVec<[Waited; 4]>>,
    /// The stream in the lists of its device and of the gate.
    listed: Arc<Listed>,
}

type Waited = (Weak<StreamInner>, u64);

impl Stream {
    pub(crate) fn new(runtime: Runtime, inner: Arc<StreamInner>) -> Self {
        Self { runtime, inner }
    }

    /// Waits for all work that is enqueued on this stream when the call begins.
    ///
    /// # Errors
    ///
    /// Errors of `cudaStreamSynchronize`, which include failures of the work itself.
    #[doc(alias = "cudaStreamSynchronize")]
    pub fn synchronize(&self) -> Result<()> {
        self.uncaptured("Stream::synchronize", NO_WAIT)?
            .synchronize()
    }

    /// Returns true if all enqueued work is done. Does not wait.
    ///
    /// # Errors
    ///
    /// Errors of `cudaStreamQuery`, which include failures of the work itself.
    #[doc(alias = "cudaStreamQuery")]
    pub fn is_idle(&self) -> Result<bool> {
        self.uncaptured("Stream::is_idle", NO_WAIT)?.is_idle()
    }

    /// Makes later work on this stream wait for the event. Does not block the caller.
    ///
    /// # Ordering
    ///
    /// Work that is enqueued on this stream after the call runs after the work that was enqueued before the event's record.
    ///
    /// # Errors
    ///
    /// [`Error::RuntimeMismatch`], or errors of `cudaStreamWaitEvent`.
    #[doc(alias = "cudaStreamWaitEvent")]
    pub fn wait(&self, event: &Event) -> Result<()> {
        if !self.runtime.is_same(event.runtime()) {
            return Err(Error::RuntimeMismatch { what: "the event" });
        }
        if let Some(place) = capture::of(&self.inner)? {
            return place.wait(event.raw(), event.captured_in());
        }
        event.check_recorded("Stream::wait")?;
        self.inner.enqueue_wait(event.raw())
    }

    /// The stream, unless this thread captures it: then the call is refused.
    pub(crate) fn uncaptured(
        &self,
        call: &'static str,
        reason: &'static str,
    ) -> Result<&Arc<StreamInner>> {
        match capture::of(&self.inner)? {
            None => Ok(&self.inner),
            Some(_) => Err(capture::refused(call, reason)),
        }
    }

    /// Refuses a device of another runtime, whose ordinals have another meaning.
    #[inline]
    pub(crate) fn check_runtime(&self, device: &Device, what: &'static str) -> Result<()> {
        match self.runtime.is_same(device.runtime()) {
            true => Ok(()),
            false => Err(Error::RuntimeMismatch { what }),
        }
    }

    /// Records an event that is complete when all work enqueued so far is done. For times, see [`Event::timed`].
    ///
    /// The library uses the event, too: later work on another stream that needs a buffer from this one waits only up to the event, if the
    /// uses of the buffer came before it, and otherwise for all work that this stream has by then. So a stream of transfers that records
    /// an event after each one lets kernels wait for exactly their own transfers.
    ///
    /// # Errors
    ///
    /// [`Error::Forked`], and errors of `cudaEventCreateWithFlags`, `cudaEventRecord` and, for earlier events, `cudaEventQuery`.
    #[doc(alias = "cudaEventRecord")]
    pub fn record(&self) -> Result<Event> {
        if let Some(place) = capture::of(&self.inner)? {
            let (event, captured_in) = place.event()?;
            return Ok(Event::of(self, Arc::new(event), Some(captured_in)));
        }
        Ok(Event::of(self, self.inner.mark()?, None))
    }

    /// The device that the stream runs on.
    pub fn device(&self) -> Device {
        Device::new(self.runtime.clone(), Arc::clone(&self.inner.device))
    }

    /// A number that no other stream of the process has.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.inner.id()
    }

    /// CUDA's handle. It is valid while a clone of this stream is live. Work enqueued directly through it is not tracked.
    pub fn as_raw(&self) -> cudaStream_t {
        self.inner.raw()
    }

    #[doc(hidden)]
    #[must_use]
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    #[inline]
    pub(crate) fn inner(&self) -> &Arc<StreamInner> {
        &self.inner
    }
}

#[allow(unsafe_code, reason = "passes the handle to CUDA")]
impl StreamInner {
    pub(crate) fn create(device: &Arc<DeviceState>) -> Result<Arc<Self>> {
        let stream = Self::create_private(device)?;
        device.streams.add(&stream.listed);
        Ok(stream)
    }

    /// Creates a stream that is in no list of the device, because the others would query it: CUDA captures it.
    pub(super) fn create_private(device: &Arc<DeviceState>) -> Result<Arc<Self>> {
        let raw = device.api.stream_create(device.ordinal)?;
        // SAFETY: the stream is new. It is dropped with the last reference, and its enqueued work completes nevertheless.
        let raw = unsafe { Owned::new(&device.api, device.ordinal, raw) };
        Ok(Self::of(device, raw, None, false))
    }

    pub(super) fn begin_capture(&self) -> Result<()> {
        // SAFETY: the stream is live as long as `self`.
        unsafe { self.api().begin_capture(self.ordinal(), self.raw()) }
    }

    pub(super) fn end_capture(&self) -> Result<Owned<cudaGraph_t>> {
        let (api, ordinal) = (self.api(), self.ordinal());
        // SAFETY: this thread began the capture.
        let graph = unsafe { api.end_capture(ordinal, self.raw()) }?;
        // SAFETY: the graph is new.
        Ok(unsafe { Owned::new(api, ordinal, graph) })
    }

    pub(super) fn captured_node(&self) -> Result<cudaGraphNode_t> {
        // SAFETY: the stream is live as long as `self`.
        unsafe { self.api().captured_node(self.ordinal(), self.raw()) }
    }

    /// A stream of another library, which is not destroyed; without an owner, its unknown work, which is over after a wait for the device.
    pub(crate) fn foreign(
        device: &Arc<DeviceState>,
        raw: cudaStream_t,
        owner: Option<ForeignOwner>,
    ) -> Arc<Self> {
        let is_unknown = owner.is_none();
        // SAFETY: a kept handle is not destroyed.
        let raw = unsafe { Owned::new(&device.api, device.ordinal, raw) }.kept();
        let stream = Self::of(device, raw, owner, is_unknown);
        device.streams.add(&stream.listed);
        stream
    }

    pub(crate) fn unknown(device: &Arc<DeviceState>) -> Arc<Self> {
        Self::foreign(device, std::ptr::null_mut(), None)
    }

    fn of(
        device: &Arc<DeviceState>,
        raw: Owned<cudaStream_t>,
        owner: Option<ForeignOwner>,
        is_unknown: bool,
    ) -> Arc<Self> {
        static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
        // Relaxed: the numbers need only differ.
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let stream = Arc::new_cyclic(|stream| Self {
            id,
            followed: Last::followed_by(id),
            device: Arc::clone(device),
            raw,
            owner,
            is_unknown,
            submitted: AtomicU64::new(0),
            completed: AtomicU64::new(0),
            asked: AtomicU64::new(0),
            tails: Mutex::default(),
            waited: Mutex::default(),
            listed: Arc::new(Listed::new(&device.api, device.ordinal, stream.clone())),
        });
        // Before there is work that a thread could wait for.
        process_end::watch(Used::Context);
        stream
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Returns true if only a wait by the host tells that the work up to `seq` is over.
    pub(crate) fn must_wait_for(&self, seq: u64) -> bool {
        self.is_unknown && !self.is_known_done(seq)
    }

    pub(crate) fn raw(&self) -> cudaStream_t {
        self.raw.raw()
    }

    pub(crate) fn ordinal(&self) -> u32 {
        self.device.ordinal
    }

    pub(crate) fn api(&self) -> &Arc<Api> {
        &self.device.api
    }

    pub(crate) fn device(&self) -> &Arc<DeviceState> {
        &self.device
    }

    /// The stream as lists hold it.
    pub(crate) fn listed(&self) -> &Arc<Listed> {
        &self.listed
    }

    /// Makes the tombstone event, before the stream is destroyed.
    fn leave(&mut self) -> Tombstone {
        let last_event = || match self.is_idle()? {
            true => Ok(Tombstone::Idle),
            false if self.is_unknown => Ok(Tombstone::Lost),
            false => RawEvent::create(&self.device, false)?
                .record(self)
                .map(|event| Tombstone::Event(Arc::new(event))),
        };
        last_event().unwrap_or_else(|_: Error| match &self.owner {
            None => Tombstone::Stream(self.raw.take()),
            // Its owner may hold the list.
            Some(_) => Tombstone::Lost,
        })
    }

    #[inline]
    pub(crate) fn submitted(&self) -> u64 {
        self.submitted.load(Ordering::Acquire)
    }

    /// Must be called before a prefetch is left out. Once for each 1,024 pieces of work, asks the driver if the device is full: then pages may have
    /// been evicted for other libraries and programs, and from now on no page is known to be there.
    #[inline]
    pub(crate) fn look_for_evictions(&self) {
        let now = (self.submitted() >> 10) + 1;
        // Relaxed: it says nothing of other memory.
        if self.asked.load(Ordering::Relaxed) != now {
            self.asked.store(now, Ordering::Relaxed);
            self.device.look_for_evictions();
        }
    }

    /// Numbers work that has just been enqueued. It must not be called earlier: an event recorded in between would not cover the
    /// work.
    #[inline]
    pub(crate) fn number(&self) -> u64 {
        self.submitted.fetch_add(1, Ordering::AcqRel) + 1
    }

    pub(crate) fn completed_to(&self, seq: u64) {
        if cfg!(cuda_um_loom) {
            // The load of `fetch_update` would hide other threads' loads from loom.
            self.completed.fetch_max(seq, Ordering::AcqRel);
            return;
        }
        // Not `fetch_max`: ThreadSanitizer does not see LLVM's code for it.
        let later = |done| (done < seq).then_some(seq);
        let _ = self
            .completed
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, later);
    }

    pub(crate) fn is_known_done(&self, seq: u64) -> bool {
        self.completed.load(Ordering::Acquire) >= seq
    }

    pub(crate) fn is_known_idle(&self) -> bool {
        self.is_known_done(self.submitted())
    }
}

impl Drop for StreamInner {
    fn drop(&mut self) {
        fork::released(|| {
            // On a gated device the stream is queried, because the host may access memory of work that is not tracked.
            let tombstone = match self.is_known_idle() && !self.device.is_gated {
                true => Tombstone::Idle,
                false => self.leave(),
            };
            self.listed.leave(tombstone);
            // A stream may be dropped under a lock. If this is the last handle of the device, its drop waits for copies, so it is
            // deferred.
            let device = Arc::clone(&self.device);
            after_unlock(move || drop(device));
        });
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream")
            .field("id", &self.inner.id())
            .field("device", &self.inner.ordinal())
            .field("raw", &self.as_raw())
            .field("submitted", &self.inner.submitted())
            .finish_non_exhaustive()
    }
}
