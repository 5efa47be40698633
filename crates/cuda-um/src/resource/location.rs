//! Where the pages of a buffer are, in one word, as known from the library's own calls.
//!
//! A mistake costs only time: the word decides which prefetches are left out. It has two answers. What is *known* leaves a prefetch out, and is
//! kept only for memory that owns its pages: in a block of 2 MiB that buffers share, others may move them. The *guess* ("away") is for graphs and
//! for the next owner of a pool's block. Work outside of the library is not tracked.

#[cfg(all(test, not(cuda_um_loom)))]
mod tests;

use crate::context::tracked::Pages;
use crate::context::tracker::Access;
use crate::driver::advice::Advice;
use crate::driver::location::Location;
use crate::sync::atomic::{AtomicU64, Ordering};
use std::ops::Range;

/// The size of a block in bytes: the most that the driver migrates at once.
pub(crate) const BLOCK: usize = 2 << 20;

/// The location of a buffer's pages.
pub(crate) struct Whereabouts {
    word: AtomicU64,
    home: Location,
}

/// The word: the known place of all pages (8 bits, 0 for none), flags, the number of live host guards (16 bits), and a number that grows with each
/// change (32 bits).
#[derive(Clone, Copy, PartialEq, Eq)]
struct Word(u64);

const PLACE: u64 = 0xff;
/// Pages may not be on the device where the memory was allocated.
const AWAY: u64 = 1 << 8;
/// The whole buffer is read-mostly: reads leave the pages in place.
const READ_MOSTLY: u64 = 1 << 9;
/// The program has given advice for the buffer, or for parts of it: a bit for each kind.
const ADVISED: u64 = 0b111 << 10;
const GUARD: u64 = 1 << 16;
const GUARDS: u64 = 0xffff * GUARD;
const CHANGE: u64 = 1 << 32;

/// The state of a buffer before its pages were moved, or the driver was asked where they are.
#[derive(Clone, Copy)]
pub(crate) struct Before(u64);

impl Word {
    fn has(self, flag: u64) -> bool {
        self.0 & flag != 0
    }

    fn with(self, flag: u64, is_set: bool) -> Self {
        Self(if is_set {
            self.0 | flag
        } else {
            self.0 & !flag
        })
    }

    /// Places above the largest number are never known.
    fn at(self, place: Option<Location>) -> Self {
        Self(self.0 & !PLACE | number(place))
    }

    /// Returns true if pages that move to a place stay there while the host has its guards.
    fn stays(self, place: Location) -> bool {
        place == Location::Host || !self.has(GUARDS) || self.has(READ_MOSTLY)
    }

    fn touched(self, place: Location, access: Access, home: Location) -> Self {
        match access {
            // A prefetch records the destination of the pages itself.
            Access::Move => self,
            Access::Read if self.has(READ_MOSTLY) => self,
            _ => {
                let is_known = self.0 & PLACE == number(Some(place));
                let kept = if is_known { self } else { self.at(None) };
                kept.with(AWAY, self.has(AWAY) || place != home)
            }
        }
    }

    fn lost(self) -> Self {
        self.at(None).with(AWAY, true)
    }
}

#[inline]
fn number(place: Option<Location>) -> u64 {
    match place {
        Some(Location::Host) => 1,
        Some(Location::Device(ordinal)) if u64::from(ordinal) + 2 <= PLACE => {
            u64::from(ordinal) + 2
        }
        _ => 0,
    }
}

impl Whereabouts {
    pub(crate) fn new(home: Location, is_away: bool) -> Self {
        Self {
            word: AtomicU64::new(Word(0).with(AWAY, is_away).0),
            home,
        }
    }

    #[inline]
    fn word(&self) -> Word {
        Word(self.word.load(Ordering::Acquire))
    }

    fn change(&self, change: impl Fn(Word) -> Word) {
        let mut before = self.word.load(Ordering::Relaxed);
        loop {
            let after = change(Word(before)).0.wrapping_add(CHANGE);
            let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
            match self
                .word
                .compare_exchange_weak(before, after, success, failure)
            {
                Ok(_) => return,
                Err(now) => before = now,
            }
        }
    }

    #[inline]
    pub(crate) fn is_away(&self) -> bool {
        self.word().has(AWAY)
    }

    #[inline]
    pub(crate) fn is_at(&self, place: Location) -> bool {
        let number = number(Some(place));
        number > 0 && self.word().0 & PLACE == number
    }

    pub(crate) fn place(&self) -> Option<Location> {
        match self.word().0 & PLACE {
            0 => None,
            1 => Some(Location::Host),
            number => Some(Location::Device(number as u32 - 2)),
        }
    }

    /// Must be called before pages are moved, or the driver is asked where they are.
    pub(crate) fn before(&self) -> Before {
        Before(self.word().0 / CHANGE)
    }

    /// Records that pages were moved to a place, in stream order, or are there: all of them, or some. The place is known only for pages that this
    /// memory `owns`. Unless it `is_last`, another use of the buffer may run after it and move them.
    pub(crate) fn moved(
        &self,
        before: Before,
        place: Location,
        (is_all, owns, is_last): (bool, bool, bool),
    ) {
        self.change(|word| {
            let stays = is_last && word.stays(place) && word.0 / CHANGE == before.0;
            let is_away = !stays || place != self.home || !is_all && word.has(AWAY);
            let stays_known = word.0 & PLACE == number(Some(place));
            let known = stays && owns && (is_all || stays_known);
            word.at(known.then_some(place)).with(AWAY, is_away)
        });
    }

    /// Records that a processor uses the buffer, and may move any part of it.
    pub(crate) fn touched(&self, place: Location, access: Access) {
        self.change(|word| word.touched(place, access, self.home));
    }

    /// Records advice, or work that the library does not see.
    pub(crate) fn lost(&self) {
        self.change(Word::lost);
    }

    /// Records that the host may access the buffer from now on, until `let_go`.
    pub(crate) fn held(&self, access: Access) {
        self.change(|word| Word(word.touched(Location::Host, access, self.home).0 + GUARD));
    }

    /// Records that a host guard was dropped.
    pub(crate) fn let_go(&self) {
        self.change(|word| Word(word.0 - GUARD));
    }

    /// Records if the whole buffer is read-mostly. A part of one that no longer is may be at any place.
    pub(crate) fn set_read_mostly(&self, is_set: bool) {
        self.change(|word| match is_set {
            true => word.with(READ_MOSTLY, true),
            false => word.with(READ_MOSTLY, false).lost(),
        });
    }

    /// Returns true if pages at the place stay there while the host has its guards.
    pub(crate) fn keeps(&self, place: Location) -> bool {
        self.word().stays(place)
    }

    /// What is known of the pages, for observers.
    pub(crate) fn pages(&self) -> Pages {
        let word = self.word();
        Pages {
            are_advised: word.has(ADVISED),
            are_held: word.has(GUARDS),
            have_left: word.has(AWAY),
        }
    }

    /// Returns true if nothing but the program may move the pages: it has given advice for a part of the buffer, or a host guard lives.
    pub(crate) fn is_left_to_program(&self) -> bool {
        let pages = self.pages();
        pages.are_held || pages.are_advised
    }

    /// Records advice of the program. Only advice for the whole buffer ends earlier advice of its kind.
    pub(crate) fn advised(&self, advice: Advice, is_whole: bool) {
        // Odd numbers set advice; the even number that follows unsets it.
        let (number, _) = advice.to_sys();
        let flag = (ADVISED & ADVISED.wrapping_neg()) << ((number.0 - 1) / 2);
        if advice.is_set() || is_whole {
            self.change(|word| word.with(flag, advice.is_set()));
        }
    }
}

/// Returns true if the blocks of these addresses have no memory of other buffers. The memory up to `reserved_end` belongs to this one.
pub(crate) fn owns_blocks(addresses: &Range<usize>, reserved_end: usize) -> bool {
    addresses.start.is_multiple_of(BLOCK) && reserved_end >= addresses.end.next_multiple_of(BLOCK)
}
