//! The state of a session.

use crate::auto::pages::Pages;
use crate::auto::plan::Plan;
use crate::auto::report::AutoPrefetchReport;
use crate::auto::rounds::Rounds;
use crate::auto::sequence::Sequence;
use crate::context::device::Device;
use crate::context::stream::Stream;
use crate::context::tracked::Part;
use crate::resource::allocation::Allocation;
use crate::resource::cache::Place;
use crate::sync::caught;
use cuda_um_cost::CostModel;
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Buffers that a session remembers.
const MOST_BUFFERS: usize = 1 << 14;
/// The smallest buffer that a plan advises: advice applies to whole pages, which smaller ones share.
const LEAST_ADVISED: usize = 64 << 10;

/// The clock of the program: foreign code, which may run in the drop of a guard. A panic in it, or in its drop, ends there.
pub(super) struct Clock(Option<Box<dyn Fn() -> Duration>>);

impl Clock {
    pub(super) fn new(clock: impl Fn() -> Duration + 'static) -> Self {
        Self(Some(Box::new(clock)))
    }

    /// The time; zero if the clock panics.
    pub(super) fn now(&self) -> Duration {
        let time = caught(|| self.0.as_ref().map(|clock| clock()));
        time.flatten().unwrap_or_default()
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        let clock = self.0.take();
        caught(|| drop(clock));
    }
}

pub(super) struct Session {
    pub(super) number: u64,
    pub(super) device: Device,
    pub(super) model: Arc<CostModel>,
    pub(super) clock: Clock,
    /// The streams of moves to devices and to the host, which run beside the program's streams and beside each other.
    pub(super) streams: Option<[Stream; 2]>,
    pub(super) sequence: Sequence,
    pub(super) buffers: HashMap<u64, Pages>,
    pub(super) state: State,
    /// True until rounds in which kernels use memory of the host were slower.
    pub(super) over_link: bool,
    /// The moves that follow when the current operation is enqueued, by the position of its part.
    pub(super) following: SmallVec<[(usize, Place); 4]>,
    /// Host guards that live, by the number of their event.
    pub(super) guards: HashMap<u64, Guard>,
    pub(super) report: AutoPrefetchReport,
}

pub(super) enum State {
    /// Records since an event, and searches for a period from another event on.
    Learning {
        since: u64,
        search: u64,
    },
    Running {
        plan: Plan,
        at: usize,
        rounds: Rounds,
    },
    Stopped,
}

/// A host guard.
pub(super) struct Guard {
    /// The number of its use.
    pub(super) number: u64,
    /// The move that follows it.
    pub(super) after: Option<Place>,
    /// The time at which the host got access.
    pub(super) began: Option<Duration>,
    /// The pages before it, and the bytes that are to fault in, while the session learns.
    pub(super) before: Option<(Pages, u64)>,
}

/// A part of managed memory: its position, and its allocation.
pub(super) type Managed<'a, 'p> = (usize, &'a Part<'p>, &'a Allocation);

/// The part, if a plan may move it: memory that the program has advised is left alone.
pub(super) fn managed<'a, 'p>((at, part): (usize, &'a Part<'p>)) -> Option<Managed<'a, 'p>> {
    let raw = part.memory.as_any().downcast_ref::<Allocation>()?;
    let is_movable = raw.is_managed() && !part.bytes.is_empty() && !raw.cache.is_advised();
    is_movable.then_some((at, part, raw))
}

/// Returns true if a plan may advise the buffer of a part: this is all of it, and it is not small. Memory of another library goes back to its
/// owner without advice.
pub(super) fn may_advise(part: &Part<'_>, raw: &Allocation) -> bool {
    part.bytes.len() == raw.bytes() && raw.bytes() >= LEAST_ADVISED && !raw.is_imported()
}

/// A kind of event, with the processor that uses the memory.
pub(super) struct Kind {
    pub(super) key: u64,
    pub(super) place: Place,
    pub(super) waits: bool,
    /// True if the host has access already.
    pub(super) is_held: bool,
}

impl Session {
    /// The caller has called `planner::enter`; the drop of the session calls `planner::leave`.
    pub(super) fn new(number: u64, device: Device, clock: Clock) -> Self {
        Self {
            number,
            model: device.cost_model(),
            device,
            clock,
            streams: None,
            sequence: Sequence::default(),
            buffers: HashMap::new(),
            state: State::Learning {
                since: 0,
                search: 0,
            },
            over_link: true,
            following: SmallVec::new(),
            guards: HashMap::new(),
            report: AutoPrefetchReport::default(),
        }
    }

    pub(super) fn pages(&mut self, raw: &Allocation) -> &mut Pages {
        if self.buffers.len() > MOST_BUFFERS {
            // Most were dropped: a program with a period uses fewer.
            self.buffers.retain(|_, pages| pages.kept.is_some());
        }
        self.buffers.entry(raw.id()).or_insert_with(|| {
            let place = match raw.cache.is_away() {
                true => Place::Host,
                false => Place::Device(raw.device().ordinal()),
            };
            Pages::new(raw.bytes(), place)
        })
    }
}
