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
    pub(crate) memory: Memory,
    /// The uses by captured work.
    pub(super) uses: RefCell<InFlight>,
    /// The memory itself, if it was dropped during the capture.
    pub(crate) kept: Cell<Option<Box<dyn Any + Send + Sync>>>,
    pub(crate) state: RefCell<SlotUse>,
}

#[derive(Clone)]
pub(crate) struct Memory {
    pub(crate) id: u64,
    pub(crate) title: String,
}

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

impl Memory {
    pub(crate) fn of(part: &Part<'_>) -> Self {
        let memory = part.memory;
        Self {
            id: memory.id(),
            title: memory.title(),
        }
    }
}

impl Slot {
    pub(super) fn new(part: &Part<'_>) -> Self {
        Self {
            memory: Memory::of(part),
            uses: RefCell::default(),
            kept: Cell::new(None),
            state: RefCell::new(SlotUse {
                bytes: 0..0,
                writes: false,
                prefetch: None,
                advice: Vec::new(),
            }),
        }
    }

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

    pub(super) fn advise(&self, advice: Advice, bytes: &Range<usize>) {
        let mut state = self.state.borrow_mut();
        state.bytes = join(&state.bytes, bytes);
        state.advice.push((advice, bytes.clone()));
    }
}

/// The range from the first byte of both to the last.
fn join(a: &Range<usize>, b: &Range<usize>) -> Range<usize> {
    match (a.is_empty(), b.is_empty()) {
        (true, _) => b.clone(),
        (_, true) => a.clone(),
        _ => a.start.min(b.start)..a.end.max(b.end),
    }
}
