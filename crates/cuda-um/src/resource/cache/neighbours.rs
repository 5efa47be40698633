//! What happens to blocks of addresses that several buffers may share.

use crate::resource::cache::Place;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// What the driver migrates at most at once.
pub(crate) const BLOCK: usize = 2 << 20;

/// For each block, where all work on it that may not be done takes it, how often that changed, and whose work that is.
///
/// A table of fixed size without locks: blocks that fall together disturb each other, which costs a prefetch that moves nothing, no more.
pub(crate) struct Neighbours {
    entries: Box<[AtomicU64]>,
    /// How many buffers of the block the host has guards of.
    held: Box<[AtomicU32]>,
}

/// How a block was at a time. The same again: nothing has been moved elsewhere since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stamp(u64);

/// How a block was before the driver was asked for it.
pub(crate) struct Seen {
    entry: Entry,
    /// By the host, which may have let go when the answer comes.
    held: bool,
}

/// What is known by an answer of the driver.
pub(crate) enum Found {
    There(Stamp),
    /// Perhaps by another one: now whatever happens to the block changes its stamp.
    AskAgain,
    Nothing,
}

/// Who uses a block, what that use comes after, and what comes after it.
#[derive(Clone, Copy)]
pub(crate) struct User<'a> {
    /// The buffer's number.
    pub(crate) buffer: u64,
    /// All other uses of the buffer.
    pub(crate) after_own: bool,
    /// All other work of all devices. Looked at only where it matters.
    pub(crate) after_all: &'a dyn Fn() -> bool,
    pub(crate) before: Later,
}

/// What comes after a use, of all that is enqueued later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Later {
    /// Perhaps nothing: after a read on a stream.
    Nothing,
    /// All uses of the buffer: after a write or a move.
    OfTheBuffer,
    /// Everything: after the host's own.
    All,
}

const ENTRIES: usize = 4096;
// From the lowest bit: the place, whether that holds for everybody, the buffer, the count of changes.
const PLACE_BITS: u32 = 15;
const BUFFER_BITS: u32 = 20;
/// Of nobody yet.
const NOBODY: u64 = 0;
/// Of several buffers.
const SEVERAL: u64 = (1 << BUFFER_BITS) - 1;
/// Nobody knows where it goes.
const UNKNOWN: u64 = 0;
const HOST: u64 = 1;

#[derive(Clone, Copy, PartialEq, Eq)]
struct Entry {
    changes: u64,
    /// All work that may not be done is this buffer's, or comes before a write or move of it, which the buffer's next prefetch follows.
    buffer: u64,
    /// No work that may not be done takes the block elsewhere. Else some may that comes before later work of `buffer`, but of no other.
    for_all: bool,
    place: u64,
}

impl User<'_> {
    /// The buffer's number in an entry.
    fn own(&self) -> u64 {
        self.buffer % (SEVERAL - 1) + 1
    }
}

impl Default for Neighbours {
    fn default() -> Self {
        Self {
            entries: (0..ENTRIES).map(|_| AtomicU64::new(0)).collect(),
            held: (0..ENTRIES).map(|_| AtomicU32::new(0)).collect(),
        }
    }
}

impl Entry {
    fn unpack(bits: u64) -> Self {
        Self {
            changes: bits >> (PLACE_BITS + 1 + BUFFER_BITS),
            buffer: bits >> (PLACE_BITS + 1) & SEVERAL,
            for_all: bits >> PLACE_BITS & 1 == 1,
            place: bits & ((1 << PLACE_BITS) - 1),
        }
    }

    fn pack(self) -> u64 {
        let high = self.changes << BUFFER_BITS | self.buffer;
        (high << 1 | u64::from(self.for_all)) << PLACE_BITS | self.place
    }

    /// Whose work it is with one more user.
    fn with(self, user: &User<'_>) -> u64 {
        match self.buffer {
            NOBODY => user.own(),
            before if before == user.own() => before,
            _ => SEVERAL,
        }
    }

    /// After a use, and whether the block is then at the place for what the buffer does next. Work of other buffers is not ordered with
    /// it: what was enqueued before may run after it, and take the block back.
    fn after(self, user: &User<'_>, place: u64) -> (Self, bool) {
        let own = user.own();
        let buffer = self.with(user);
        let stays = place != UNKNOWN && place == self.place;
        let changes = self.changes + u64::from(!stays);
        if self.buffer == NOBODY && place != UNKNOWN || stays && self.for_all {
            let after = Self {
                changes,
                buffer,
                for_all: true,
                place,
            };
            return (after, true);
        }
        let is_after_all = || user.before != Later::Nothing && (user.after_all)();
        if place != UNKNOWN && (buffer == own && user.after_own || is_after_all()) {
            let after = Self {
                changes,
                buffer: own,
                for_all: user.before == Later::All,
                place,
            };
            return (after, true);
        }
        let after = Self {
            changes,
            buffer,
            for_all: false,
            // Those who were there before still are.
            place: if stays { place } else { UNKNOWN },
        };
        (after, false)
    }

    /// More users at the same place change nothing.
    fn stamp(self) -> Stamp {
        let same = Self {
            buffer: 0,
            for_all: false,
            ..self
        };
        Stamp(same.pack())
    }
}

fn code(place: Option<Place>) -> u64 {
    match place {
        None => UNKNOWN,
        Some(Place::Host) => HOST,
        // So many devices no machine has.
        Some(Place::Device(ordinal)) => u64::from(ordinal & 0xfff) + 2,
    }
}

impl Neighbours {
    pub(crate) fn stamp(&self, block: usize) -> Stamp {
        let entry = &self.entries[block % ENTRIES];
        Entry::unpack(entry.load(Ordering::Acquire)).stamp()
    }

    /// Something of the block goes to a place, or nobody knows where. The stamp of the block if, for what the buffer does next, it is there.
    pub(crate) fn touch(
        &self,
        block: usize,
        place: Option<Place>,
        user: &User<'_>,
    ) -> Option<Stamp> {
        let stamp = self.change(block, |old| Some(old.after(user, code(place))))?;
        self.unless_held(block, place, user).then_some(stamp)
    }

    /// How the block is before the driver is asked for it.
    pub(crate) fn see(&self, block: usize) -> Seen {
        let entry = self.entries[block % ENTRIES].load(Ordering::SeqCst);
        Seen {
            entry: Entry::unpack(entry),
            held: self.is_held(block),
        }
    }

    /// The driver said where the block is, after it was seen. Counts only if that lasts, and nothing has happened to the block since.
    pub(crate) fn found(&self, block: usize, seen: &Seen, place: Place, user: &User<'_>) -> Found {
        if seen.held && place != Place::Host {
            return Found::Nothing;
        }
        let mut elsewhere = false;
        let stamp = self.change(block, |old| {
            let (new, lasts) = old.after(user, code(Some(place)));
            // What was on its way elsewhere when the driver answered may have arrived, and be over.
            let same = old.stamp() == seen.entry.stamp() && old.for_all <= seen.entry.for_all;
            // More that went there would not have changed the stamp.
            elsewhere = lasts && same && old.place != UNKNOWN && old.place != new.place;
            let buffer = old.with(user);
            match old.place == new.place {
                _ if !lasts || !same || elsewhere => None,
                true => Some((Entry { buffer, ..old }, true)),
                false => Some((new, true)),
            }
        });
        match stamp {
            Some(stamp) if self.unless_held(block, Some(place), user) => Found::There(stamp),
            None if elsewhere => {
                self.touch(block, None, user);
                Found::AskAgain
            }
            _ => Found::Nothing,
        }
    }

    /// The host begins to use something of the block, and may touch it at any time until `release`. It is still to be told that.
    pub(crate) fn hold(&self, block: usize) {
        self.held[block % ENTRIES].fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn release(&self, block: usize) {
        self.held[block % ENTRIES].fetch_sub(1, Ordering::SeqCst);
    }

    fn is_held(&self, block: usize) -> bool {
        self.held[block % ENTRIES].load(Ordering::SeqCst) > 0
    }

    /// Whether the host does not take the block back at any time. Else nobody knows where it is.
    fn unless_held(&self, block: usize, place: Option<Place>, user: &User<'_>) -> bool {
        // Looked at after the change, while `touch` by the host comes after `hold`: one of the two sees the other.
        if place == Some(Place::Host) || !self.is_held(block) {
            return true;
        }
        self.change(block, |old| Some(old.after(user, UNKNOWN)));
        false
    }

    /// Changes an entry as `next` says, if it does, which also says whether there is a stamp of that.
    fn change(
        &self,
        block: usize,
        mut next: impl FnMut(Entry) -> Option<(Entry, bool)>,
    ) -> Option<Stamp> {
        let mut stamp = None;
        let change = |bits: u64| {
            let old = Entry::unpack(bits);
            let next = next(old);
            stamp = next.and_then(|(new, lasts)| lasts.then(|| new.stamp()));
            let (new, _) = next?;
            (new != old).then(|| new.pack())
        };
        // Refused where nothing changes.
        let _ =
            self.entries[block % ENTRIES].fetch_update(Ordering::SeqCst, Ordering::SeqCst, change);
        stamp
    }
}
