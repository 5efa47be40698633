//! The memory that captured work uses.

use crate::context::tracked::Part;
use crate::context::tracker::InFlight;
use crate::driver::advice::Advice;
use crate::driver::location::Location;
use std::any::Any;
use std::cell::RefCell;
use std::ops::Range;

/// One piece of memory, while the capture goes on.
pub(crate) struct Slot {
    /// The uses by captured work.
    pub(super) uses: RefCell<InFlight>,
    pub(super) used: RefCell<SlotUse>,
}

/// One piece of memory, and what the captured work does with it.
pub(crate) struct SlotUse {
    pub(crate) id: u64,
    pub(crate) title: String,
    /// The bytes that it uses, from the first to the last.
    pub(crate) bytes: Range<usize>,
    pub(crate) writes: bool,
    /// The bytes to prefetch before each launch, and to which place, if the program prefetched them.
    pub(crate) prefetch: Option<(Location, Range<usize>)>,
    /// The advice to give before the first launch.
    pub(crate) advice: Vec<(Advice, Range<usize>)>,
    /// The memory itself, if it was dropped during the capture.
    pub(crate) kept: Option<Box<dyn Any + Send + Sync>>,
}

impl Slot {
    pub(super) fn new(part: &Part<'_>) -> Self {
        Self {
            uses: RefCell::default(),
            used: RefCell::new(SlotUse {
                id: part.memory.id(),
                title: part.memory.title(),
                bytes: 0..0,
                writes: false,
                prefetch: None,
                advice: Vec::new(),
                kept: None,
            }),
        }
    }

    pub(super) fn is_of(&self, id: u64) -> bool {
        self.used.borrow().id == id
    }

    pub(super) fn used(&self, part: &Part<'_>) {
        let mut used = self.used.borrow_mut();
        used.bytes = join(&used.bytes, &part.bytes);
        used.writes |= part.access.is_write();
    }

    /// Adds a prefetch. The last place is that of all bytes.
    pub(super) fn prefetch(&self, location: Location, bytes: &Range<usize>) {
        let mut used = self.used.borrow_mut();
        used.bytes = join(&used.bytes, bytes);
        let all = match &used.prefetch {
            Some((before, others)) if *before == location => join(others, bytes),
            _ => bytes.clone(),
        };
        used.prefetch = Some((location, all));
    }

    pub(super) fn advise(&self, advice: Advice, bytes: &Range<usize>) {
        let mut used = self.used.borrow_mut();
        used.bytes = join(&used.bytes, bytes);
        used.advice.push((advice, bytes.clone()));
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
