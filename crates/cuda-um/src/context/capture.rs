//! Captures: a thread records its work on streams into a CUDA graph, and nothing runs.
//!
//! CUDA captures private streams, which only this module has. Work that the thread enqueues on a stream of the capture goes to the private
//! stream in its place ([`of`]), so work of other threads on the same streams runs as always. The capture mode is "relaxed": it restricts no
//! other call of CUDA, on any thread.

mod node;
mod place;
mod refusal;
mod slot;

pub(crate) use node::{KernelNode, NamedLaunch, NamedScalar};
pub(crate) use place::Place;
pub(crate) use refusal::{BY_HOST, NO_WAIT, accessed_by_host, refuse_host, refused};
pub(crate) use slot::{Slot, SlotUse};

use crate::context::device::DeviceState;
use crate::context::event::RawEvent;
use crate::context::op::{InCapture, Op, What};
use crate::context::stream::{Stream, StreamInner};
use crate::context::tracked::Part;
use crate::driver::advice::Advice;
use crate::driver::owned::Owned;
use crate::error::{Error, Result};
use crate::sync::{is_outside, outside};
use cuda_um_sys::cudaGraph_t;
use smallvec::SmallVec;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The captures of all threads.
static ACTIVE: AtomicUsize = AtomicUsize::new(0);

static NEXT: AtomicU64 = AtomicU64::new(1);

thread_local! {
    static CURRENT: RefCell<Option<Rc<Capture>>> = const { RefCell::new(None) };
}

/// More streams would make the tracked uses query events, which a capture does not allow.
const MOST_STREAMS: usize = 8;

pub(crate) struct Capture {
    id: u64,
    device: Arc<DeviceState>,
    /// The library's stream of the device.
    own: Arc<StreamInner>,
    streams: RefCell<SmallVec<[Captured; 2]>>,
    /// The memory that the work uses, in the order of first use.
    slots: RefCell<Vec<Rc<Slot>>>,
    kernels: RefCell<Vec<KernelNode>>,
    /// The number of fills, copies, and work of other libraries.
    others: Cell<usize>,
    /// The scalars with names, in the order of their definitions.
    scalars: RefCell<Vec<NamedScalar>>,
    /// The memory that work outside of the capture has used on this thread since its begin, by number, with the first call that did.
    stamps: RefCell<HashMap<u64, String>>,
    /// Why there is no graph: the first error that the closure cannot repair.
    broken: RefCell<Option<Error>>,
    /// Values that are dropped when the capture has ended ([`drop_after`]).
    dropped: RefCell<Vec<Box<dyn Any>>>,
}

/// A stream of the capture, and the private stream that stands for it.
struct Captured {
    stream: Arc<StreamInner>,
    private: Arc<StreamInner>,
}

pub(crate) struct Recorded {
    pub(crate) graph: Owned<cudaGraph_t>,
    pub(crate) slots: Vec<SlotUse>,
    pub(crate) kernels: Vec<KernelNode>,
    /// The number of fills, copies, and work of other libraries.
    pub(crate) others: usize,
    pub(crate) scalars: Vec<NamedScalar>,
}

/// Returns true if any thread captures. While none does, this is the whole cost of captures for other work.
#[inline]
pub(crate) fn is_active() -> bool {
    // Relaxed: a thread always sees the count of its own capture, and the captures of other threads do not concern it.
    ACTIVE.load(Ordering::Relaxed) != 0
}

/// Returns true if this thread has a capture, also while it does other work.
#[inline]
pub(crate) fn is_of_this_thread() -> bool {
    is_active() && CURRENT.try_with(|it| it.borrow().is_some()) == Ok(true)
}

#[inline]
pub(crate) fn current() -> Option<Rc<Capture>> {
    match is_active() {
        true => current_if_any_is_active(),
        false => None,
    }
}

#[cold]
fn current_if_any_is_active() -> Option<Rc<Capture>> {
    // At the end of a thread its capture has ended.
    let current = CURRENT.try_with(|current| current.borrow().clone());
    current.ok().flatten().filter(|_| !is_outside())
}

/// Returns the place of an operation on a stream in the capture of this thread; `None` if it is not captured.
///
/// # Errors
///
/// The capture does not record such work; or the stream is not captured, and the work uses memory of the capture: it would run before the
/// captured work, at once.
#[cold]
pub(crate) fn admit(op: &Op<'_>, stream: &Arc<StreamInner>) -> Result<Option<Place>> {
    let rule = op.in_capture;
    let Some(capture) = current().filter(|_| rule != InCapture::Ignores) else {
        return Ok(None);
    };
    let private = capture.private(stream)?;
    let is_used = |part: &&Part<'_>| capture.has(part.memory.id());
    match (private, op.parts.iter().find(is_used), rule) {
        (Some(private), _, InCapture::Records) => Ok(Some(Place { capture, private })),
        (None, None, _) => {
            let call = match rule {
                InCapture::Records => "work on another stream".to_owned(),
                _ => op.words(),
            };
            capture.stamp(op.parts, call);
            Ok(None)
        }
        (_, _, InCapture::Refuses(reason)) => Err(match (op.what, op.parts) {
            (What::Fill, [part]) => refused(format!("a fill of {}", part.memory.title()), reason),
            _ => refused(op.words(), reason),
        }),
        (_, part, _) => {
            let title = part.map_or_else(String::new, |part| part.memory.title());
            Err(refused(
                format_args!("work on another stream, with {title}"),
                "the captured work uses that memory, and this work would run before it: add the stream to the capture (`Recording::fork`)",
            ))
        }
    }
}

/// The place of work without memory on a stream in the capture of this thread; `None` if it is not captured.
#[inline]
pub(crate) fn of(stream: &Arc<StreamInner>) -> Result<Option<Place>> {
    let Some(capture) = current() else {
        return Ok(None);
    };
    let private = capture.private(stream)?;
    Ok(private.map(|private| Place { capture, private }))
}

/// Writes the first contents of a new buffer. A capture of this thread records that for each launch; but the buffer may leave the capture, and be
/// read before a launch, so the contents are also written now.
pub(crate) fn also_now(mut write: impl FnMut() -> Result<()>) -> Result<()> {
    if current().is_some() {
        outside(&mut write)?;
    }
    write()
}

/// Drops a value whose drop waits for the device: after the capture of this thread, if there is one, because CUDA refuses such waits until then.
pub(crate) fn drop_after(value: impl Sized + 'static) {
    if is_active()
        && let Ok(Some(capture)) = CURRENT.try_with(|current| current.borrow().clone())
    {
        capture.dropped.borrow_mut().push(Box::new(value));
    }
}

/// Keeps memory that is about to be dropped, if captured work of this thread uses it: it lives as long as the graph.
#[inline]
pub(crate) fn keep(id: u64, memory: impl FnOnce() -> Option<Box<dyn Any + Send + Sync>>) {
    if let Some(slot) = current().and_then(|capture| capture.slot(id)) {
        let memory = memory();
        slot.used.borrow_mut().kept = memory;
    }
}

/// Advice of this thread becomes a step before the first launch, if it captures. Returns true if it does.
///
/// CUDA refuses advice during a capture.
#[cold]
pub(crate) fn advise(part: &Part<'_>, advice: Advice) -> bool {
    let capture = current().filter(|capture| capture.is_of(part));
    capture
        .map(|capture| capture.slot_of(part).advise(advice, &part.bytes))
        .is_some()
}

impl Capture {
    /// Begins a capture of this thread's work on the stream, and on the library's stream of the device, on which operations run that name no
    /// stream.
    pub(crate) fn begin(stream: &Stream) -> Result<Rc<Self>> {
        match CURRENT.try_with(|current| current.borrow().is_some()) {
            Ok(false) => {}
            Ok(true) => {
                return Err(refused(
                    "a second capture",
                    "a thread captures one graph at a time: end the first one, or add the stream to it (`Recording::fork`)",
                ));
            }
            Err(_) => {
                return Err(refused(
                    "a capture at the end of its thread",
                    "the thread's local values are destroyed: capture on another thread",
                ));
            }
        }
        if is_outside() {
            return Err(refused(
                "a capture by an observer",
                "its work is not captured, so it would run at once: capture outside of the observer",
            ));
        }
        let inner = stream.inner();
        let device = Arc::clone(inner.device());
        let own = stream.runtime().own_stream(&device)?;
        let private = StreamInner::create_private(&device)?;
        if let Err(error) = private.begin_capture() {
            let _ = private.end_capture();
            return Err(error);
        }
        let stream = Arc::clone(inner);
        // Relaxed: the numbers need only differ.
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let capture = Rc::new(Self {
            id,
            device,
            own,
            streams: RefCell::new(smallvec::smallvec![Captured { stream, private }]),
            slots: RefCell::default(),
            kernels: RefCell::default(),
            others: Cell::new(0),
            scalars: RefCell::default(),
            stamps: RefCell::default(),
            broken: RefCell::default(),
            dropped: RefCell::default(),
        });
        ACTIVE.fetch_add(1, Ordering::Relaxed);
        CURRENT.set(Some(Rc::clone(&capture)));
        Ok(capture)
    }

    /// Adds a stream to the capture: its captured work runs after the work that is captured by now on the first stream.
    pub(crate) fn fork(&self, stream: &Arc<StreamInner>) -> Result<()> {
        if self.known(stream).is_some() {
            return Ok(());
        }
        let (device, of) = (stream.ordinal(), self.device.ordinal);
        if device != of {
            return Err(Error::DeviceMismatch {
                what: "a stream of the capture",
                expected: of,
                found: device,
            });
        }
        if self.streams.borrow().len() == MOST_STREAMS {
            return Err(Error::LimitExceeded {
                what: "the number of streams of a capture",
                value: MOST_STREAMS as u64 + 1,
                limit: MOST_STREAMS as u64,
            });
        }
        let private = StreamInner::create_private(&self.device)?;
        let event = RawEvent::create(&self.device, false)?.record(&self.first())?;
        if let Err(error) = private.enqueue_wait(&event) {
            // The stream may be captured nevertheless: then it lives until the capture ends.
            self.dropped.borrow_mut().push(Box::new(private));
            return Err(error);
        }
        let stream = Arc::clone(stream);
        self.streams.borrow_mut().push(Captured { stream, private });
        Ok(())
    }

    /// Later work on the first stream is after all work that is captured by now.
    fn join(&self) -> Result<()> {
        let streams = self.streams.borrow();
        streams.iter().skip(1).try_for_each(|other| {
            let event = RawEvent::create(&self.device, false)?.record(&other.private)?;
            streams[0].private.enqueue_wait(&event)
        })
    }

    /// Ends the capture, and orders the end of the graph after all its work. In any case nothing is captured afterwards.
    pub(crate) fn end(&self) -> Result<Recorded> {
        let first = self.first();
        let joined = self.join();
        Self::forget();
        // If the first call did not end the capture, the second one does.
        let graph = first
            .end_capture()
            .inspect_err(|_| drop(first.end_capture()));
        joined?;
        if let Some(error) = self.broken.take() {
            return Err(error);
        }
        let slots = self.slots.take().into_iter();
        Ok(Recorded {
            graph: graph?,
            // All other handles of the slots are dropped.
            slots: (slots.filter_map(Rc::into_inner))
                .map(|slot| slot.used.into_inner())
                .collect(),
            kernels: self.kernels.take(),
            others: self.others.get(),
            scalars: self.scalars.take(),
        })
    }

    /// Ends the capture without a graph, if it has not ended.
    pub(crate) fn abandon(&self) {
        if current().is_some_and(|current| current.id == self.id) {
            let _ = self.end();
        }
    }

    fn forget() {
        if CURRENT.take().is_some() {
            ACTIVE.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// No graph can be made, because CUDA may have recorded work that the library does not know.
    fn is_broken_by(&self, error: &Error) {
        self.fails_with(refused(
            "to go on after a call that failed",
            format_args!("{error}. CUDA may have recorded a part of that work: capture again"),
        ));
    }

    /// The capture ends with this error, if it is the first one.
    fn fails_with(&self, error: Error) {
        self.broken.borrow_mut().get_or_insert(error);
    }

    fn first(&self) -> Arc<StreamInner> {
        Arc::clone(&self.streams.borrow()[0].private)
    }

    /// The private stream that stands for a stream of the capture. The library's stream joins the capture with its first work.
    fn private(&self, stream: &Arc<StreamInner>) -> Result<Option<Arc<StreamInner>>> {
        if Arc::ptr_eq(stream, &self.own) {
            self.fork(stream)?;
        }
        Ok(self.known(stream))
    }

    fn known(&self, stream: &Arc<StreamInner>) -> Option<Arc<StreamInner>> {
        let streams = self.streams.borrow();
        let found = streams
            .iter()
            .find(|captured| Arc::ptr_eq(&captured.stream, stream))?;
        Some(Arc::clone(&found.private))
    }

    fn is_of(&self, part: &Part<'_>) -> bool {
        Arc::ptr_eq(part.memory.device().api(), &self.device.api)
    }

    fn has(&self, id: u64) -> bool {
        self.slot(id).is_some()
    }

    fn slot(&self, id: u64) -> Option<Rc<Slot>> {
        let slots = self.slots.borrow();
        slots.iter().find(|slot| slot.is_of(id)).cloned()
    }

    /// The slot of the part's memory; a new one for new memory.
    fn slot_of(&self, part: &Part<'_>) -> Rc<Slot> {
        let (mut slots, id) = (self.slots.borrow_mut(), part.memory.id());
        let known = slots.iter().find(|slot| slot.is_of(id)).cloned();
        known.unwrap_or_else(|| {
            let slot = Rc::new(Slot::new(part));
            slots.push(Rc::clone(&slot));
            slot
        })
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }
}
