//! Automatic prefetch: records the first rounds of a loop, and moves memory ahead of the operations of the following ones.
//!
//! A session is of one thread. It sees launches, fills and host guards of this thread (`context/planner.rs`), searches for the period of
//! their sequence (`sequence`), plans the moves that pay by the cost model (`plan`), and compares the times of rounds with and without
//! them (`rounds`). It moves nothing that a plan does not know to be used next, and keeps no memory alive.

mod advised;
mod guards;
mod moves;
mod pages;
mod plan;
pub(crate) mod report;
mod rounds;
mod sequence;
mod session;
mod state;

pub use crate::auto::report::{AutoPrefetchReport, AutoPrefetchStop};
use crate::auto::state::{Clock, Kind, Session};
use crate::context::device::Device;
use crate::context::observer::What;
use crate::context::planner::{self, Planned, Planner};
use crate::context::stream::Stream;
use crate::context::tracked::{Part, Tracked};
use crate::driver::location::Location;
use crate::error::{Error, Result};
use crate::fork;
use crate::resource::cache::Place;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

thread_local! {
    static SESSION: RefCell<Option<Session>> = const { RefCell::new(None) };
    /// True if the session is stopped while it is borrowed: it ends with its operation.
    static ENDS: Cell<bool> = const { Cell::new(false) };
}

/// Prefetches for the loops of this thread, from its start until [`stop`](Self::stop), without a change of their code.
///
/// - It records launches, fills and host guards of this thread, with the managed memory that they use. When their sequence has repeated, it
///   prefetches in each following round: to the device as soon as the host is done with a buffer that a kernel uses next, and to the host
///   as soon as the last kernel is enqueued. Buffers that both sides only read become read-mostly for this time.
/// - It moves only what the cost model of the device expects to pay ([`Device::cost_model`]), and only if the times of the recorded rounds
///   agree. If rounds become slower by more than 1 %, it stops.
/// - If an operation does not follow the plan, the plan ends; the program continues without it, and the session learns again.
/// - Memory that the program has advised, memory that a host guard holds or that is lent to another library for writes, and pinned and device
///   memory are left alone. Imported memory is moved, and never advised.
///
/// A handle that is forgotten leaves its scope open until the thread ends: the thread has no other one meanwhile.
///
/// It never changes results. A prefetch that is under way can make [`try_host`](crate::UnifiedBuffer::try_host) return
/// [`Error::Busy`] for longer.
///
/// ```
/// # let device = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env().unwrap().table())?.device(0)?;
/// use cuda_um::{UnifiedBuffer, auto::AutoPrefetch};
///
/// let stream = device.create_stream()?;
/// let mut data = UnifiedBuffer::<f32>::zeroed(&device, 1 << 20)?;
/// let auto = AutoPrefetch::start(&device)?;
/// for round in 0..10 {
///     data.host_mut()?.fill(round as f32);
///     data.fill_on(2.0, &stream)?; // or a launch
/// }
/// println!("{}", auto.stop());
/// # Ok::<(), cuda_um::Error>(())
/// ```
#[doc(alias = "cudaMemPrefetchAsync")]
#[must_use = "it ends when it is dropped"]
pub struct AutoPrefetch {
    // It keeps nothing alive if it is forgotten.
    ordinal: u32,
    _on_this_thread: PhantomData<*const ()>,
}

impl AutoPrefetch {
    /// Starts to record the operations of this thread on the device's runtime.
    ///
    /// On a device without concurrent managed access it does nothing ([`AutoPrefetchStop::NotSupported`]).
    ///
    /// # Errors
    ///
    /// [`Error::Busy`] if this thread has one already, also inside of a clock or a `tracing` subscriber that it calls;
    /// [`Error::Forked`].
    pub fn start(device: &Device) -> Result<Self> {
        let began = Instant::now();
        Self::start_with_clock(device, move || began.elapsed())
    }

    /// Does the same as [`start`](Self::start), and compares rounds by another clock, for example that of the simulator.
    /// A panic of the clock ends there, and the time is then zero.
    ///
    /// # Errors
    ///
    /// The errors of [`start`](Self::start).
    pub fn start_with_clock(
        device: &Device,
        clock: impl Fn() -> Duration + 'static,
    ) -> Result<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        fork::check("AutoPrefetch::start")?;
        // Relaxed: the numbers need only differ.
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        planner::enter(&Plans);
        let mut session = Session::new(number, device.clone(), Clock::new(clock));
        let is_free =
            |session: &RefCell<Option<_>>| session.try_borrow().is_ok_and(|s| s.is_none());
        if !SESSION.try_with(is_free).unwrap_or(false) {
            return Err(Error::Busy {
                what: "automatic prefetch".to_owned(),
                by: "this thread has a scope of it already: stop that one first".to_owned(),
            });
        }
        if device.state().gate().is_some() || !device.capabilities().concurrent_managed_access {
            session.stop(Some(AutoPrefetchStop::NotSupported));
        }
        SESSION.set(Some(session));
        ENDS.set(false);
        Ok(Self {
            ordinal: device.ordinal(),
            _on_this_thread: PhantomData,
        })
    }

    /// Ends the scope, and returns what it did. Prefetches that are enqueued still run; the advice of the plan ends.
    ///
    /// Inside of the scope's clock, or of a `tracing` subscriber that it calls, the scope ends with the operation that called them, and the report
    /// is only [`AutoPrefetchStop::Busy`].
    pub fn stop(self) -> AutoPrefetchReport {
        end()
    }
}

impl Drop for AutoPrefetch {
    fn drop(&mut self) {
        end();
    }
}

/// Ends the session of this thread, if it has one.
pub(crate) fn end() -> AutoPrefetchReport {
    if fork::is_over() {
        return AutoPrefetchReport::default();
    }
    let Ok(session) = SESSION.try_with(|session| session.try_borrow_mut().map(|mut s| s.take()))
    else {
        return AutoPrefetchReport::default();
    };
    let Ok(session) = session else {
        ENDS.set(true);
        return AutoPrefetchReport {
            stopped: Some(AutoPrefetchStop::Busy),
            ..AutoPrefetchReport::default()
        };
    };
    session.map_or_else(AutoPrefetchReport::default, |mut session| {
        session.stop(None);
        session.report.clone()
    })
}

/// The session of this thread, as the end of the thread drops it.
#[cfg(all(test, not(cuda_um_loom)))]
pub(crate) fn taken() -> impl Drop {
    SESSION.take().expect("a session")
}

impl fmt::Debug for AutoPrefetch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AutoPrefetch")
            .field("device", &self.ordinal)
            .finish_non_exhaustive()
    }
}

/// The planner of all threads.
struct Plans;

/// Calls `use_it` with the session of this thread, if it sees work on the device. Its own prefetches find it borrowed, and are not seen.
fn with<R>(device: &Device, use_it: impl FnOnce(&mut Session) -> R) -> Option<R> {
    let use_it = |session: &RefCell<Option<Session>>| {
        let mut session = session.try_borrow_mut().ok()?;
        let seen = session.as_mut().filter(|session| session.sees(device));
        let used = seen.map(use_it);
        if ENDS.take() {
            let ended = session.take();
            // Its end may call a subscriber, which finds no session.
            drop(session);
            drop(ended);
        }
        used
    };
    SESSION.try_with(use_it).ok().flatten()
}

/// The kind of an event.
fn kind(name: impl Hash, place: Place, parts: &[Part<'_>]) -> Kind {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    for part in parts.iter().filter(|part| part.memory.is_managed()) {
        part.access.is_write().hash(&mut hasher);
    }
    Kind {
        key: hasher.finish(),
        place,
        waits: place == Place::Host,
        is_held: false,
    }
}

impl Planner for Plans {
    fn before(&self, what: What<'_>, stream: &Stream, parts: &[Part<'_>]) {
        let here = stream.device();
        let place = Place::Device(here.ordinal());
        with(&here, |session| {
            // Those of a host guard, or of an operation whose enqueue failed.
            session.following.clear();
            match what {
                What::Launch(kernel) => {
                    session.begins(&kind((0, kernel), place, parts), parts);
                }
                What::Fill => {
                    session.begins(&kind((1, ""), place, parts), parts);
                }
                What::Prefetch { to, .. } => match to {
                    Location::Device(ordinal) => session.moved(parts, Place::Device(ordinal)),
                    _ => session.moved(parts, Place::Host),
                },
                What::Copy => session.copied(parts),
                What::Advise(..) => {}
            }
        });
    }

    fn after(&self, parts: &[Part<'_>]) {
        if let Some(part) = parts.first() {
            with(part.memory.device(), |session| session.ended(parts));
        }
    }

    fn host_begins(&self, part: &Part<'_>, is_held: bool) -> Option<Planned> {
        with(part.memory.device(), |session| {
            let kind = Kind {
                is_held,
                ..kind((2, ""), Place::Host, std::slice::from_ref(part))
            };
            let event = session.guard_begins(&kind, part)?;
            Some(Planned {
                event,
                session: session.number,
            })
        })
        .flatten()
    }

    fn host_waited(&self, part: &Part<'_>, planned: &Planned) {
        with(part.memory.device(), |session| {
            if session.number == planned.session {
                session.guard_waited(planned.event);
            }
        });
    }

    fn host_ends(&self, part: &Part<'_>, planned: Planned) {
        with(part.memory.device(), |session| {
            if session.number == planned.session {
                session.guard_ends(planned.event, part);
            }
        });
    }

    fn advises(&self, memory: &dyn Tracked) -> Result<()> {
        advised::unset_of(memory.describe().id)
    }

    fn dropped(&self, memory: &dyn Tracked) {
        let id = memory.describe().id;
        advised::remove(id);
        with(memory.device(), |session| session.forget(id));
    }
}
