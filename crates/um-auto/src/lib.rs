#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

// A session is of one thread. It observes launches, fills and host guards of this thread, searches for the period of their sequence
// (`sequence`), plans the moves that pay by the cost model (`plan`), and compares the times of rounds with and without them (`rounds`). It
// moves nothing that a plan does not know to be used next, and keeps no memory alive.
mod advised;
mod guards;
mod moves;
mod pages;
mod plan;
mod report;
mod rounds;
mod sequence;
mod session;
mod state;

pub use crate::report::{AutoPrefetchReport, AutoPrefetchStop};

use crate::state::{Kind, Place, Session};
use cuda_um::observe::{Observer, Op, Part, Told, What, observe};
use cuda_um::{Device, Error, Location, Result, fork};
use std::cell::RefCell;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

thread_local! {
    static SESSION: RefCell<Option<Session>> = const { RefCell::new(None) };
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
/// It never changes results. A prefetch that is under way can make [`try_host`](cuda_um::UnifiedBuffer::try_host) return
/// [`Error::Busy`] for longer.
///
/// ```
/// # let device = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env().unwrap().table())?.device(0)?;
/// use cuda_um::UnifiedBuffer;
/// use um_auto::AutoPrefetch;
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
#[derive(Debug)]
// It keeps nothing alive if it is forgotten.
pub struct AutoPrefetch {
    _on_this_thread: PhantomData<*const ()>,
}

impl AutoPrefetch {
    /// Starts to record the operations of this thread on the device's runtime.
    ///
    /// On a device without concurrent managed access it does nothing ([`AutoPrefetchStop::NotSupported`]).
    ///
    /// # Errors
    ///
    /// [`Error::Busy`] if this thread has one already; [`Error::Forked`].
    pub fn start(device: &Device) -> Result<Self> {
        let began = Instant::now();
        Self::start_with_clock(device, move || began.elapsed())
    }

    /// Does the same as [`start`](Self::start), and compares rounds by another clock, for example that of the simulator. The clock may run in the
    /// drop of a host guard, so it must not panic.
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
        let is_free =
            |session: &RefCell<Option<_>>| session.try_borrow().is_ok_and(|s| s.is_none());
        if !SESSION.try_with(is_free).unwrap_or(false) {
            return Err(Error::Busy {
                what: "automatic prefetch".to_owned(),
                by: "this thread has a scope of it already: stop that one first".to_owned(),
            });
        }
        // Relaxed: the numbers need only differ.
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let observing = observe(Arc::new(Plans(number)));
        let mut session = Session::new(number, device.clone(), Box::new(clock), observing);
        if !device.capabilities().concurrent_managed_access {
            session.stop(Some(AutoPrefetchStop::NotSupported));
        }
        SESSION.set(Some(session));
        Ok(Self {
            _on_this_thread: PhantomData,
        })
    }

    /// Ends the scope, and returns what it did. Prefetches that are enqueued still run; the advice of the plan ends.
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
fn end() -> AutoPrefetchReport {
    if fork::is_over() {
        return AutoPrefetchReport::default();
    }
    let take = |session: &RefCell<Option<Session>>| session.try_borrow_mut().ok()?.take();
    let session = SESSION.try_with(take).ok().flatten();
    session.map_or_else(AutoPrefetchReport::default, |mut session| {
        session.stop(None);
        session.report.clone()
    })
}

/// The observer of the session with this number, which acts only on the session's thread.
struct Plans(u64);

impl Plans {
    /// Calls `use_it` with the session, if it is of this thread and sees work on the device. Its own prefetches find it borrowed, and are not
    /// seen.
    fn with<R>(&self, device: &Device, use_it: impl FnOnce(&mut Session) -> R) -> Option<R> {
        let use_it = |session: &RefCell<Option<Session>>| {
            let mut session = session.try_borrow_mut().ok()?;
            let session = session.as_mut()?;
            (session.number == self.0 && session.sees(device)).then(|| use_it(session))
        };
        SESSION.try_with(use_it).ok().flatten()
    }

    /// Work is about to be enqueued.
    fn enqueues(&self, name: impl Hash, op: &Op<'_>) {
        if let Some(stream) = op.stream {
            let device = stream.device();
            let place = Place::Device(device.ordinal());
            self.with(&device, |session| {
                session.begins(&kind(name, place, op.parts), op.parts);
            });
        }
    }

    /// The host is about to get access, or has it already.
    fn guard_begins(&self, op: &Op<'_>, is_held: bool) {
        let [part] = op.parts else { return };
        self.with(op.device, |session| {
            let kind = Kind {
                is_held,
                ..kind((2, ""), Place::Host, op.parts)
            };
            session.guard_begins(op.number, &kind, part);
        });
    }
}

fn kind(name: impl Hash, place: Place, parts: &[Part<'_>]) -> Kind {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    for part in parts.iter().filter(|part| part.info().is_managed) {
        part.writes().hash(&mut hasher);
    }
    Kind {
        key: hasher.finish(),
        place,
        waits: place == Place::Host,
        is_held: false,
    }
}

impl Observer for Plans {
    fn before(&self, op: &Op<'_>) {
        match op.what {
            What::Launch { kernel: name, .. } | What::Graph { name } => {
                self.enqueues((0, name), op)
            }
            What::Fill => self.enqueues((1, ""), op),
            What::Host { waits: true } => self.guard_begins(op, false),
            What::Prefetch { to } => {
                let place = match to {
                    Location::Device(ordinal) => Place::Device(ordinal),
                    _ => Place::Host,
                };
                self.with(op.device, |session| session.moved(op.parts, place));
            }
            What::Copy => {
                self.with(op.device, |session| session.copied(op.parts));
            }
            What::Advise(_) => {
                // The program's advice is given even if this fails.
                let _ = op
                    .parts
                    .iter()
                    .try_for_each(|part| advised::unset_of(part.buffer()));
            }
            What::Free => {
                for part in op.parts {
                    advised::remove(part.buffer());
                    self.with(op.device, |session| session.forget(part.buffer()));
                }
            }
            _ => {}
        }
    }

    fn after(&self, told: &Told<'_>) {
        let (op, is_done) = (told.op, told.error.is_none());
        match op.what {
            What::Launch { .. } | What::Graph { .. } | What::Fill if op.stream.is_some() => {
                self.with(op.device, |session| match is_done {
                    true => session.ended(op.parts),
                    false => session.following.clear(),
                });
            }
            What::Host { waits } => {
                if is_done && !waits {
                    self.guard_begins(op, true);
                }
                self.with(op.device, |session| {
                    session.guard_waited(op.number, is_done)
                });
            }
            What::HostEnd { began } => {
                if let [part] = op.parts {
                    self.with(op.device, |session| session.guard_ends(began, part));
                }
            }
            _ => {}
        }
    }
}
