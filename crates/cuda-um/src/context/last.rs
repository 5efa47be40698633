//! The last use of a buffer in one word, which changes without a lock.

use crate::context::stream::StreamInner;
use crate::sync::atomic::{AtomicU64, Ordering};

/// The id of a stream of which later work runs after all uses (22 bits), the [`Repeat`] that this word records (2 bits, 0 for none), and the
/// number of the last such use on the stream (40 bits).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Last(u64);

/// A use that a stream repeats.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// The uses since the last write are one entry, of this stream.
    Read = 1,
    /// The last write is of this stream, and there are no uses since.
    Write = 2,
}

const ID_AT: u32 = 42;
const ACCESS_AT: u32 = 40;
const SEQ: u64 = (1 << ACCESS_AT) - 1;

impl Last {
    /// There are no uses.
    pub(crate) const NONE: Self = Self(0);
    /// Only the list of uses, under the lock, says which are there. No stream has the id 0.
    pub(crate) const UNKNOWN: Self = Self(1);

    /// The word for a use that the stream may repeat.
    pub(crate) fn new(stream: &StreamInner, repeat: Repeat, seq: u64) -> Self {
        match Self::followed_by(stream) {
            followed if followed != Self::UNKNOWN && seq <= SEQ => {
                Self(followed.0 | (repeat as u64) << ACCESS_AT | seq)
            }
            followed => followed,
        }
    }

    /// The word for uses that the lists have.
    pub(crate) fn followed_by(stream: &StreamInner) -> Self {
        match stream.id() < 1 << (u64::BITS - ID_AT) {
            true => Self(stream.id() << ID_AT),
            false => Self::UNKNOWN,
        }
    }

    /// Returns true if later work on the stream runs after all uses.
    #[inline]
    pub(crate) fn is_followed_by(self, stream: &StreamInner) -> bool {
        self == Self::NONE || self.0 >> ID_AT == stream.id()
    }

    /// The use that this word records; `None` if the lists have all uses.
    pub(crate) fn repeats(self) -> Option<Repeat> {
        let is = |repeat: &Repeat| self.0 >> ACCESS_AT & 3 == *repeat as u64;
        [Repeat::Read, Repeat::Write].into_iter().find(is)
    }

    pub(crate) fn seq(self) -> u64 {
        self.0 & SEQ
    }
}

/// A [`Last`]. Only a thread with the lock changes the stream or the access; any thread may raise the number.
pub(crate) struct AtomicLast(AtomicU64);

impl Default for AtomicLast {
    fn default() -> Self {
        Self(AtomicU64::new(Last::NONE.0))
    }
}

impl AtomicLast {
    /// A use that another thread records meanwhile is one that the caller's work need not follow, as if the caller had looked first.
    #[inline]
    pub(crate) fn load(&self) -> Last {
        Last(self.0.load(Ordering::Acquire))
    }

    pub(crate) fn store(&self, last: Last) {
        self.0.store(last.0, Ordering::Release);
    }

    pub(crate) fn swap(&self, last: Last) -> Last {
        Last(self.0.swap(last.0, Ordering::AcqRel))
    }

    /// Records the use if it repeats the last one. Returns false otherwise.
    #[inline]
    pub(crate) fn repeat(&self, stream: &StreamInner, repeat: Repeat, seq: u64) -> bool {
        // Relaxed, as for a failed exchange: the word only selects the exchange, which fails if it is old. A use that is recorded is released and
        // acquired by the exchange.
        let mut last = self.0.load(Ordering::Relaxed);
        while last >> ACCESS_AT == stream.id() << (ID_AT - ACCESS_AT) | repeat as u64 && seq <= SEQ
        {
            let next = last.max(last & !SEQ | seq);
            let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
            match self.0.compare_exchange_weak(last, next, success, failure) {
                Ok(_) => return true,
                Err(now) => last = now,
            }
        }
        false
    }
}
