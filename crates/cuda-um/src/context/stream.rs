//! Streams: work in order, beside other streams.

use crate::context::device::{Device, DeviceState};
use crate::context::event::{Event, RawEvent};
use crate::context::runtime::Runtime;
use crate::driver::Api;
use crate::error::{Error, Result};
use crate::sync::{Mutex, after_unlock};
use cuda_um_sys::cudaStream_t;
use smallvec::SmallVec;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// A stream: what is enqueued on it runs in order, one after the other. A clone is the same stream.
///
/// Work on different streams that uses one buffer is ordered by the library: a write waits for earlier uses, a read for the
/// earlier write. A stream lives as long as anything that was enqueued on it is tracked by a buffer.
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

/// The stream itself, and a count of what went on it.
///
/// Each piece of work gets a number once it is enqueued. An event that is recorded after the count was read covers all work up to
/// that count; so an event is needed only where somebody waits.
pub(crate) struct StreamInner {
    /// A number of its own, for traces.
    id: u64,
    device: Arc<DeviceState>,
    raw: Handle,
    submitted: AtomicU64,
    completed: AtomicU64,
    tails: Mutex<Tails>,
    /// Up to where this stream has been told to wait for others. The address identifies: a `Weak` keeps it from reuse.
    waited: Mutex<SmallVec<[Waited; 4]>>,
    /// Filled when the stream is dropped, if anybody else holds it.
    remains: Arc<OnceLock<Remains>>,
}

/// What a stream leaves to those who must know whether its work is done.
pub(crate) enum Remains {
    /// All of it was done.
    Nothing,
    /// Done with the last work: nothing came after it.
    Event(RawEvent),
    /// The stream itself, where there is no event to ask.
    Stream(Left),
}

/// A stream that is destroyed later: with the list that it is in.
pub(crate) struct Left {
    api: Arc<Api>,
    ordinal: u32,
    raw: Handle,
}

type Waited = (Weak<StreamInner>, u64);

/// Events of the stream. If each were replaced by a newer one before it is done, none would ever be seen to be done: one is kept until it is.
#[derive(Default)]
struct Tails {
    kept: Option<Tail>,
    newest: Option<Tail>,
}

/// An event, and the work that it covers.
struct Tail {
    covers: u64,
    event: Arc<RawEvent>,
}

struct Handle(cudaStream_t);

#[allow(unsafe_code, reason = "a handle is not a pointer to us")]
// SAFETY: CUDA's streams may be used from any thread; the handle is only ever passed to CUDA.
unsafe impl Send for Handle {}
#[allow(unsafe_code, reason = "a handle is not a pointer to us")]
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Stream {
    pub(crate) fn new(runtime: Runtime, inner: Arc<StreamInner>) -> Self {
        Self { runtime, inner }
    }

    /// Waits for everything that is enqueued now.
    ///
    /// # Errors
    ///
    /// What `cudaStreamSynchronize` reports: a failure of the work itself as well.
    #[doc(alias = "cudaStreamSynchronize")]
    pub fn synchronize(&self) -> Result<()> {
        self.inner.synchronize()
    }

    /// Whether everything that was enqueued is done.
    ///
    /// # Errors
    ///
    /// What `cudaStreamQuery` reports: a failure of the work itself as well.
    #[doc(alias = "cudaStreamQuery")]
    pub fn is_idle(&self) -> Result<bool> {
        self.inner.is_idle()
    }

    /// Makes later work on this stream wait for the event, without waiting here.
    ///
    /// # Ordering
    ///
    /// What is enqueued on this stream after the call runs after what was enqueued before the event's record.
    ///
    /// # Errors
    ///
    /// [`Error::RuntimeMismatch`], or what `cudaStreamWaitEvent` reports.
    #[doc(alias = "cudaStreamWaitEvent")]
    pub fn wait(&self, event: &Event) -> Result<()> {
        if !self.runtime.is_same(event.runtime()) {
            return Err(Error::RuntimeMismatch { what: "the event" });
        }
        self.inner.enqueue_wait(event.raw())
    }

    /// Refuses a device of another runtime, whose ordinals have nothing to do with those of this one.
    pub(crate) fn check_runtime(&self, device: &Device, what: &'static str) -> Result<()> {
        match self.runtime.is_same(device.runtime()) {
            true => Ok(()),
            false => Err(Error::RuntimeMismatch { what }),
        }
    }

    /// An event that is done once everything enqueued so far is. For times, see [`Event::timed`].
    ///
    /// # Errors
    ///
    /// What `cudaEventCreateWithFlags` and `cudaEventRecord` report.
    #[doc(alias = "cudaEventRecord")]
    pub fn record(&self) -> Result<Event> {
        Event::record(self, false)
    }

    /// The device that the stream runs on.
    pub fn device(&self) -> Device {
        Device::new(self.runtime.clone(), Arc::clone(&self.inner.device))
    }

    /// CUDA's handle. It is valid while a clone of this stream lives; what is enqueued through it, no buffer knows of.
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
        let raw = Handle(device.api.stream_create(device.ordinal)?);
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let stream = Arc::new(Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            device: Arc::clone(device),
            raw,
            submitted: AtomicU64::new(0),
            completed: AtomicU64::new(0),
            tails: Mutex::default(),
            waited: Mutex::default(),
            remains: Arc::default(),
        });
        device.add_stream(&stream);
        Ok(stream)
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn raw(&self) -> cudaStream_t {
        self.raw.0
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

    /// Where it is told what the stream left behind, once it is gone.
    pub(crate) fn remains(&self) -> &Arc<OnceLock<Remains>> {
        &self.remains
    }

    /// For who outlives the stream, before it is destroyed.
    fn leave(&self) -> Remains {
        let last_event = || match self.is_idle()? {
            true => Ok(Remains::Nothing),
            false => RawEvent::create(&self.device, false)?
                .record(self)
                .map(Remains::Event),
        };
        last_event().unwrap_or_else(|error: Error| {
            let device = self.ordinal();
            after_unlock(move || {
                crate::telemetry::debug!(device, %error, "a stream is destroyed later: no event tells when its work is done");
            });
            Remains::Stream(Left {
                api: Arc::clone(self.api()),
                ordinal: self.ordinal(),
                raw: Handle(self.raw()),
            })
        })
    }

    /// The number of the last piece of work.
    pub(crate) fn submitted(&self) -> u64 {
        self.submitted.load(Ordering::Acquire)
    }

    /// Numbers what has just been enqueued. Not before: an event recorded in between would not cover it.
    pub(crate) fn number(&self) -> u64 {
        self.submitted.fetch_add(1, Ordering::AcqRel) + 1
    }

    pub(crate) fn completed_to(&self, seq: u64) {
        // Not `fetch_max`: LLVM does not tell ThreadSanitizer of that.
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
        // SAFETY: the stream lives as long as `self`.
        unsafe { self.api().stream_synchronize(self.ordinal(), self.raw()) }?;
        self.completed_to(seq);
        Ok(())
    }

    pub(crate) fn is_idle(&self) -> Result<bool> {
        let seq = self.submitted();
        // SAFETY: the stream lives as long as `self`.
        let idle = unsafe { self.api().stream_query(self.ordinal(), self.raw()) }?;
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
        if seq == self.submitted() {
            // Nothing came after it: no event is needed.
            return self.synchronize();
        }
        let (covers, event) = self.cover(seq)?;
        event.wait()?;
        self.completed_to(covers);
        Ok(())
    }

    /// Whether the work up to `seq` is done.
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

    /// Looks whether the kept event is done, if it is older than this: then a newer one is kept next.
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

    /// Makes later work on this stream run after the work of another one up to `seq`, without waiting here.
    pub(crate) fn order_after(self: &Arc<Self>, other: &Arc<Self>, seq: u64) -> Result<()> {
        if Arc::ptr_eq(self, other) || other.is_known_done(seq) {
            return Ok(());
        }
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
        // Noted after the wait is enqueued: who sees the note is behind the wait.
        let mut waited = self.waited.lock();
        waited.retain(|(stream, _)| stream.strong_count() > 0);
        match waited.iter_mut().find(|(stream, _)| is_other(stream)) {
            Some((_, seq)) => *seq = covers.max(*seq),
            None => waited.push((Arc::downgrade(other), covers)),
        }
        Ok(())
    }

    pub(crate) fn enqueue_wait(&self, event: &RawEvent) -> Result<()> {
        // SAFETY: both live; every `RawEvent` is recorded when it is made.
        unsafe {
            self.api()
                .stream_wait_event(self.ordinal(), self.raw(), event.raw())
        }
    }

    /// An event that covers the work up to `seq` at least, and the number up to which it does.
    fn cover(&self, seq: u64) -> Result<(u64, Arc<RawEvent>)> {
        let mut tails = self.tails.lock();
        let mut known = tails.kept.iter().chain(&tails.newest);
        if let Some(Tail { covers, event }) = known.find(|tail| tail.covers >= seq) {
            return Ok((*covers, Arc::clone(event)));
        }
        // Read before the record: the event covers all that was numbered by now.
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

/// # Safety
///
/// A live stream, which is never used again.
#[allow(unsafe_code, reason = "passes the handle to CUDA")]
unsafe fn destroy(api: &Api, device: u32, raw: cudaStream_t) {
    // SAFETY: the caller's promise.
    if let Err(error) = unsafe { api.stream_destroy(device, raw) } {
        after_unlock(move || {
            crate::telemetry::warn!(device, %error, "a stream could not be destroyed");
        });
    }
}

#[allow(unsafe_code, reason = "passes the handle to CUDA")]
impl Left {
    /// Whether the stream's work is done.
    pub(crate) fn is_idle(&self) -> Result<bool> {
        // SAFETY: the stream lives as long as `self`.
        unsafe { self.api.stream_query(self.ordinal, self.raw.0) }
    }
}

#[allow(unsafe_code, reason = "passes the handle to CUDA")]
impl Drop for Left {
    fn drop(&mut self) {
        if !self.api.origin.is_inherited() {
            // SAFETY: it has the stream alone.
            unsafe { destroy(&self.api, self.ordinal, self.raw.0) };
        }
    }
}

#[allow(unsafe_code, reason = "passes the handle to CUDA")]
impl Drop for StreamInner {
    fn drop(&mut self) {
        if self.api().origin.is_inherited() {
            return;
        }
        if !self.is_known_idle() {
            self.device.orphan_work();
        }
        // Before the stream goes; nobody can take another handle of it any more.
        let is_listed = Arc::strong_count(&self.remains) > 1;
        let remains = if is_listed {
            self.leave()
        } else {
            Remains::Nothing
        };
        let is_left = matches!(remains, Remains::Stream(_));
        let _ = self.remains.set(remains);
        if !is_left {
            // SAFETY: nobody else has the stream any more; work on it goes on, and buffers that it uses keep it alive.
            unsafe { destroy(self.api(), self.ordinal(), self.raw()) };
        }
        // A stream may go under a lock. The device, if this is its last handle, waits for its copies: later.
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
