//! Streams: work on one stream runs in order, concurrently with other streams.

use crate::context::device::{Device, DeviceState};
use crate::context::event::{Event, RawEvent};
use crate::context::runtime::Runtime;
use crate::context::streams::{Listed, Tombstone};
use crate::driver::Api;
use crate::driver::owned::Owned;
use crate::error::{Error, Result};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Mutex, after_unlock};
use cuda_um_sys::cudaStream_t;
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
/// let stream = device.stream()?;
/// let mut data = UnifiedBuffer::<u32>::zeroed(&device, 100)?;
/// data.fill(7, &stream)?;
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
    device: Arc<DeviceState>,
    raw: Arc<Owned<cudaStream_t>>,
    submitted: AtomicU64,
    completed: AtomicU64,
    tails: Mutex<Tails>,
    /// The positions on other streams that this stream waits for. The address identifies the stream: a `Weak` keeps it from reuse.
    waited: Mutex<SmallVec<[Waited; 4]>>,
    /// The stream in the lists of its device and of the gate.
    listed: Arc<Listed>,
}

type Waited = (Weak<StreamInner>, u64);

/// Events of the stream. One event is kept until it is complete: if newer events always replaced it, no event would be seen to
/// complete.
#[derive(Default)]
struct Tails {
    kept: Option<Tail>,
    newest: Option<Tail>,
}

/// An event, and the number of the last work that it covers.
struct Tail {
    covers: u64,
    event: Arc<RawEvent>,
}

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
        self.inner.synchronize()
    }

    /// Returns true if all enqueued work is done. Does not wait.
    ///
    /// # Errors
    ///
    /// Errors of `cudaStreamQuery`, which include failures of the work itself.
    #[doc(alias = "cudaStreamQuery")]
    pub fn is_idle(&self) -> Result<bool> {
        self.inner.is_idle()
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
        self.inner.enqueue_wait(event.raw())
    }

    /// Refuses a device of another runtime, whose ordinals have another meaning.
    pub(crate) fn check_runtime(&self, device: &Device, what: &'static str) -> Result<()> {
        match self.runtime.is_same(device.runtime()) {
            true => Ok(()),
            false => Err(Error::RuntimeMismatch { what }),
        }
    }

    /// Records an event that is complete when all work enqueued so far is done. For times, see [`Event::timed`].
    ///
    /// # Errors
    ///
    /// Errors of `cudaEventCreateWithFlags` and `cudaEventRecord`.
    #[doc(alias = "cudaEventRecord")]
    pub fn record(&self) -> Result<Event> {
        Event::record(self, false)
    }

    /// The device that the stream runs on.
    pub fn device(&self) -> Device {
        Device::new(self.runtime.clone(), Arc::clone(&self.inner.device))
    }

    /// CUDA's handle. It is valid while a clone of this stream is live. Work enqueued directly through it is not tracked.
    pub fn as_raw(&self) -> cudaStream_t {
        self.inner.raw()
    }

    pub(crate) fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    pub(crate) fn inner(&self) -> &Arc<StreamInner> {
        &self.inner
    }
}

#[allow(unsafe_code, reason = "passes the handle to CUDA")]
impl StreamInner {
    pub(crate) fn create(device: &Arc<DeviceState>) -> Result<Arc<Self>> {
        let raw = device.api.stream_create(device.ordinal)?;
        // SAFETY: the stream is new. It is dropped with the last reference, and its enqueued work completes nevertheless.
        let raw = unsafe { Owned::new(&device.api, device.ordinal, raw) };
        static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
        let stream = Arc::new_cyclic(|stream| Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            device: Arc::clone(device),
            raw: Arc::new(raw),
            submitted: AtomicU64::new(0),
            completed: AtomicU64::new(0),
            tails: Mutex::default(),
            waited: Mutex::default(),
            listed: Arc::new(Listed::new(&device.api, device.ordinal, stream.clone())),
        });
        device.streams.add(stream.listed());
        Ok(stream)
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
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
    fn leave(&self) -> Tombstone {
        let last_event = || match self.is_idle()? {
            true => Ok(Tombstone::Idle),
            false => RawEvent::create(&self.device, false)?
                .record(self)
                .map(Tombstone::Event),
        };
        last_event().unwrap_or_else(|error: Error| {
            let device = self.ordinal();
            after_unlock(move || {
                crate::telemetry::debug!(device, %error, "stream destruction deferred: no event could be recorded after its work");
            });
            Tombstone::Stream(Arc::clone(&self.raw))
        })
    }

    /// The number of the last work.
    pub(crate) fn submitted(&self) -> u64 {
        self.submitted.load(Ordering::Acquire)
    }

    /// Numbers work that has just been enqueued. It must not be called earlier: an event recorded in between would not cover the
    /// work.
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

    pub(crate) fn synchronize(&self) -> Result<()> {
        let seq = self.submitted();
        // SAFETY: the stream is live as long as `self`.
        unsafe { self.api().stream_synchronize(self.ordinal(), self.raw()) }?;
        self.completed_to(seq);
        Ok(())
    }

    pub(crate) fn is_idle(&self) -> Result<bool> {
        let seq = self.submitted();
        let idle = self.raw.is_idle()?;
        if idle {
            self.completed_to(seq);
        }
        Ok(idle)
    }

    /// Waits for the work up to `seq`.
    pub(crate) fn wait_for(&self, seq: u64) -> Result<()> {
        if self.is_known_done(seq) {
            return Ok(());
        }
        let spin = &self.device.spin;
        if seq == self.submitted() && !spin.is_set() {
            // No work was enqueued after it, so no event is needed.
            return self.synchronize();
        }
        let (covers, event) = self.cover(seq)?;
        event.wait(spin.time())?;
        self.completed_to(covers);
        Ok(())
    }

    /// Returns true if the work up to `seq` is done. Does not wait.
    pub(crate) fn is_done(&self, seq: u64) -> Result<bool> {
        if self.is_known_done(seq) {
            return Ok(true);
        }
        let (covers, event) = self.cover(seq)?;
        let done = event.is_complete()?;
        if done {
            self.completed_to(covers);
        } else {
            self.ask_kept(covers)?;
        }
        Ok(done)
    }

    /// Queries the kept event, if it is older than `than`. If it is complete, a newer one is kept next.
    fn ask_kept(&self, than: u64) -> Result<()> {
        let kept = match &self.tails.lock().kept {
            Some(Tail { covers, event }) if *covers < than => (*covers, Arc::clone(event)),
            _ => return Ok(()),
        };
        let (covers, event) = kept;
        if !self.is_known_done(covers) && event.is_complete()? {
            self.completed_to(covers);
        }
        Ok(())
    }

    /// Orders later work on this stream after the work of another stream up to `seq`. Does not block the caller.
    #[inline]
    pub(crate) fn order_after(self: &Arc<Self>, other: &Arc<Self>, seq: u64) -> Result<()> {
        match Arc::ptr_eq(self, other) || other.is_known_done(seq) {
            true => Ok(()),
            false => self.wait_in_order(other, seq),
        }
    }

    fn wait_in_order(&self, other: &Arc<Self>, seq: u64) -> Result<()> {
        let is_other = |stream: &Weak<Self>| std::ptr::eq(stream.as_ptr(), Arc::as_ptr(other));
        if self
            .waited
            .lock()
            .iter()
            .any(|(stream, covered)| is_other(stream) && *covered >= seq)
        {
            return Ok(());
        }
        let (covers, event) = other.cover(seq)?;
        self.enqueue_wait(&event)?;
        // Stored after the wait is enqueued: a thread that reads the entry enqueues after the wait.
        let mut waited = self.waited.lock();
        waited.retain(|(stream, _)| stream.strong_count() > 0);
        match waited.iter_mut().find(|(stream, _)| is_other(stream)) {
            Some((_, seq)) => *seq = covers.max(*seq),
            None => waited.push((Arc::downgrade(other), covers)),
        }
        Ok(())
    }

    pub(crate) fn enqueue_wait(&self, event: &RawEvent) -> Result<()> {
        // SAFETY: both are live; every `RawEvent` is recorded when it is made.
        unsafe {
            self.api()
                .stream_wait_event(self.ordinal(), self.raw(), event.raw())
        }
    }

    /// An event that covers at least the work up to `seq`, and the number of the last work that it covers.
    fn cover(&self, seq: u64) -> Result<(u64, Arc<RawEvent>)> {
        let mut tails = self.tails.lock();
        let mut known = tails.kept.iter().chain(&tails.newest);
        if let Some(Tail { covers, event }) = known.find(|tail| tail.covers >= seq) {
            return Ok((*covers, Arc::clone(event)));
        }
        // Read before the record: the event covers all work that is numbered by now.
        let covers = self.submitted();
        let newest = tails.newest.take();
        let replaced = match &tails.kept {
            Some(kept) if !self.is_known_done(kept.covers) => newest,
            _ => std::mem::replace(&mut tails.kept, newest),
        };
        let reusable = replaced.and_then(|tail| Arc::into_inner(tail.event));
        let event = match reusable {
            Some(event) => event,
            None => RawEvent::create(&self.device, false)?,
        };
        let event = Arc::new(event.record(self)?);
        tails.newest = Some(Tail {
            covers,
            event: Arc::clone(&event),
        });
        Ok((covers, event))
    }
}

impl Drop for StreamInner {
    fn drop(&mut self) {
        if self.api().origin.is_inherited() {
            return;
        }
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
