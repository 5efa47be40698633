//! What happens to blocks of addresses that several buffers may share.

use super::shadow::Place;
use std::sync::atomic::{AtomicU64, Ordering};

/// What the driver migrates at most at once.
pub(crate) const BLOCK: usize = 2 << 20;

/// For each block, where all work on it that may not be done takes it, how often that changed, and whose work that is.
///
/// A table of fixed size without locks: blocks that fall together disturb each other, which costs a prefetch that moves nothing, no more.
pub(crate) struct Neighbours {
    entries: Box<[AtomicU64]>,
}

/// How a block was at a time. The same again: nothing has been moved elsewhere since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp(u64);

/// Who uses a block, and what that use comes after.
#[derive(Clone, Copy)]
pub(crate) struct User<'a> {
    /// The buffer's number.
    pub(crate) buffer: u64,
    /// All other uses of the buffer.
    pub(crate) after_own: bool,
    /// All other work of all devices. Looked at only where it matters.
    pub(crate) after_all: &'a dyn Fn() -> bool,
}

const ENTRIES: usize = 4096;
// From the lowest bit: the place, the buffer, the count of changes.
const PLACE_BITS: u32 = 16;
const BUFFER_BITS: u32 = 20;
/// Of nobody yet.
const NOBODY: u64 = 0;
/// Of several buffers.
const SEVERAL: u64 = (1 << BUFFER_BITS) - 1;
/// Nobody knows where it goes.
const UNKNOWN: u64 = 0;

#[derive(Clone, Copy, PartialEq, Eq)]
struct Entry {
    changes: u64,
    buffer: u64,
    place: u64,
}

impl Default for Neighbours {
    fn default() -> Self {
        Self {
            entries: (0..ENTRIES).map(|_| AtomicU64::new(0)).collect(),
        }
    }
}

impl Entry {
    fn unpack(bits: u64) -> Self {
        Self {
            changes: bits >> (PLACE_BITS + BUFFER_BITS),
            buffer: bits >> PLACE_BITS & SEVERAL,
            place: bits & ((1 << PLACE_BITS) - 1),
        }
    }

    fn pack(self) -> u64 {
        (self.changes << BUFFER_BITS | self.buffer) << PLACE_BITS | self.place
    }

    /// After a use. Work of other buffers is not ordered with it: what was enqueued before may run after it, and take the block back.
    fn after(self, user: &User<'_>, place: u64) -> Self {
        let own = user.buffer % (SEVERAL - 1) + 1;
        let buffer = match self.buffer {
            NOBODY => own,
            before if before == own => own,
            _ => SEVERAL,
        };
        if place != UNKNOWN && place == self.place {
            return Self { buffer, ..self };
        }
        let changes = self.changes + 1;
        if place != UNKNOWN && (buffer == own && user.after_own || (user.after_all)()) {
            return Self {
                changes,
                buffer: own,
                place,
            };
        }
        Self {
            changes,
            buffer,
            place: UNKNOWN,
        }
    }
}

impl Neighbours {
    fn entry(&self, block: usize) -> &AtomicU64 {
        &self.entries[block % ENTRIES]
    }

    pub(crate) fn stamp(&self, block: usize) -> Stamp {
        let entry = Entry::unpack(self.entry(block).load(Ordering::Acquire));
        // More users at the same place change nothing.
        Stamp(Entry { buffer: 0, ..entry }.pack())
    }

    /// Whether nothing that may still run takes the block elsewhere than its last user does.
    pub(crate) fn is_settled(&self, block: usize) -> bool {
        Entry::unpack(self.entry(block).load(Ordering::Acquire)).place != UNKNOWN
    }

    /// Something of the block goes to a place, or nobody knows where.
    pub(crate) fn touch(&self, block: usize, place: Option<Place>, user: &User<'_>) {
        let code = match place {
            None => UNKNOWN,
            Some(Place::Host) => 1,
            // So many devices no machine has.
            Some(Place::Device(ordinal)) => u64::from(ordinal & 0xfff) + 2,
        };
        let change = |bits: u64| {
            let old = Entry::unpack(bits);
            let new = old.after(user, code);
            (new != old).then(|| new.pack())
        };
        // Refused where nothing changes.
        let _ = self
            .entry(block)
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, change);
    }
}
