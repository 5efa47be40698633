//! The memory that captured work uses.

use crate::context::tracked::Part;
use crate::context::tracker::InFlight;
use crate::driver::advice::Advice;
use crate::driver::location::Location;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::ops::Range;

/// One piece of memory, with all that the captured work does with it.
pub(crate) struct Slot {
    /// The number of the memory, as long as the capture lasts.
    pub(super) id: u64,
    /// The memory in words, for errors and pictures.
    title: String,
    /// The address for kernels of the first byte of the memory.
    address: usize,
    /// The uses by captured work.
    pub(super) uses: InFlight,
    /// The memory itself, if it was dropped during the capture.
    pub(super) kept: Cell<Option<Box<dyn Any + Send + Sync>>>,
    state: RefCell<SlotUse>,
}

/// The number of a slot's memory, the memory in words, and its address for kernels.
pub(crate) type Memory = (u64, String, usize);

/// What the captured work does with a piece of memory.
#[derive(Clone, Debug)]
pub(crate) struct SlotUse {
    /// The bytes that it uses, from the first to the last.
    pub(crate) bytes: Range<usize>,
    pub(crate) writes: bool,
    /// The bytes to prefetch before each launch, and to which place, if the program prefetched them.
    pub(crate) prefetch: Option<(Location, Range<usize>)>,
    /// The advice to give before the first launch.
    pub(crate) advice: Vec<(Advice, Range<usize>)>,
}

impl Slot {
    pub(super) fn new(part: &Part<'_>) -> Self {
        Self {
            id: part.memory.id(),
            title: part.memory.title(),
            address: part.memory.kernel_address().addr(),
            uses: InFlight::default(),
            kept: Cell::new(None),
            state: RefCell::new(SlotUse {
                bytes: part.bytes.clone(),
                writes: false,
                prefetch: None,
                advice: Vec::new(),
            }),
        }
    }

    /// Adds a use.
    pub(super) fn used(&self, part: &Part<'_>) {
        let mut state = self.state.borrow_mut();
        state.bytes = join(&state.bytes, &part.bytes);
        state.writes |= part.access.is_write();
    }

    /// Adds a prefetch. The last place is that of all bytes.
    pub(super) fn prefetch(&self, location: Location, bytes: &Range<usize>) {
        let mut state = self.state.borrow_mut();
        state.bytes = join(&state.bytes, bytes);
        let all = match &state.prefetch {
            Some((before, others)) if *before == location => join(others, bytes),
            _ => bytes.clone(),
        };
        state.prefetch = Some((location, all));
    }

    /// Adds advice.
    pub(super) fn advise(&self, advice: Advice, bytes: &Range<usize>) {
        let mut state = self.state.borrow_mut();
        state.bytes = join(&state.bytes, bytes);
        state.advice.push((advice, bytes.clone()));
    }

    /// What the graph does with the memory, and the memory, if it was dropped.
    pub(crate) fn into_parts(self) -> (Memory, SlotUse, Option<Box<dyn Any + Send + Sync>>) {
        let Self {
            id,
            title,
            address,
            state,
            kept,
            ..
        } = self;
        ((id, title, address), state.into_inner(), kept.into_inner())
    }
}

fn join(a: &Range<usize>, b: &Range<usize>) -> Range<usize> {
    a.start.min(b.start)..a.end.max(b.end)
}
