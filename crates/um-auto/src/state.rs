//! The state of a session.

use crate::pages::Pages;
use crate::plan::Plan;
use crate::report::AutoPrefetchReport;
use crate::rounds::Rounds;
use crate::sequence::Sequence;
use cuda_um::cost::CostModel;
use cuda_um::observe::{Observing, Part};
use cuda_um::{Device, Stream};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

const MOST_BUFFERS: usize = 1 << 14;
/// The smallest buffer that a plan advises: advice applies to whole pages, which smaller ones share.
const LEAST_ADVISED: usize = 64 << 10;

pub(crate) type Clock = Box<dyn Fn() -> Duration>;

/// The processor that uses memory, or that has its pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Host,
    Device(u32),
}

pub(crate) struct Session {
    pub(crate) number: u64,
    pub(crate) device: Device,
    pub(crate) model: Arc<CostModel>,
    pub(crate) clock: Clock,
    /// The streams of moves to devices and to the host, which run beside the program's streams and beside each other.
    pub(crate) streams: Option<[Stream; 2]>,
    pub(crate) sequence: Sequence,
    pub(crate) buffers: HashMap<u64, Pages>,
    pub(crate) state: State,
    /// True until rounds in which kernels use memory of the host were slower.
    pub(crate) over_link: bool,
    /// The moves that follow when the current operation is enqueued, by the position of its part.
    pub(crate) following: SmallVec<[(usize, Place); 4]>,
    /// Host guards that live, by the number of their operation.
    pub(crate) guards: HashMap<u64, Guard>,
    pub(crate) report: AutoPrefetchReport,
    /// `None` when the session has stopped.
    pub(crate) observing: Option<Observing>,
}

pub(crate) enum State {
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

pub(crate) struct Guard {
    pub(crate) event: u64,
    pub(crate) number: u64,
    pub(crate) after: Option<Place>,
    /// The time at which the host got access.
    pub(crate) began: Option<Duration>,
    /// The pages before it, and the bytes that are to fault in, while the session learns.
    pub(crate) before: Option<(Pages, u64)>,
}

pub(crate) type Managed<'a, 'p> = (usize, &'a Part<'p>);

/// The part, if a plan may move it: memory that the program has advised is left alone.
pub(crate) fn managed<'a, 'p>((at, part): Managed<'a, 'p>) -> Option<Managed<'a, 'p>> {
    let is_movable =
        part.info().is_managed && !part.range().is_empty() && !part.pages().are_advised;
    is_movable.then_some((at, part))
}

/// Returns true if a plan may advise the buffer of a part: this is all of it, and it is not small. Memory of another library goes back to its
/// owner without advice.
pub(crate) fn may_advise(part: &Part<'_>) -> bool {
    let buffer = part.info();
    part.range().len() == buffer.bytes && buffer.bytes >= LEAST_ADVISED && !buffer.is_imported
}

/// A kind of event, with the processor that uses the memory.
pub(crate) struct Kind {
    pub(crate) key: u64,
    pub(crate) place: Place,
    pub(crate) waits: bool,
    /// True if the host has access already.
    pub(crate) is_held: bool,
}

impl Session {
    pub(crate) fn new(number: u64, device: Device, clock: Clock, observing: Observing) -> Self {
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
            observing: Some(observing),
        }
    }

    pub(crate) fn pages(&mut self, part: &Part<'_>) -> &mut Pages {
        if self.buffers.len() > MOST_BUFFERS {
            // Most were dropped: a program with a period uses fewer.
            self.buffers.retain(|_, pages| pages.kept.is_some());
        }
        self.buffers.entry(part.buffer()).or_insert_with(|| {
            let place = match part.pages().have_left {
                true => Place::Host,
                false => Place::Device(part.device().ordinal()),
            };
            Pages::new(part.info().bytes, place)
        })
    }
}
