//! Tracks the uses of a buffer: the list of them under a lock, and the last one in a word.

pub(crate) use crate::context::uses::{Access, Finished, Use};

use crate::context::stream::StreamInner;
use crate::context::uses::{Other, Uses};
use crate::error::Result;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Mutex, MutexGuard};
use smallvec::SmallVec;
use std::sync::Arc;

/// The last use of a buffer in one word, which changes without a lock: the id of a stream of which later work runs after all uses (22 bits), the
/// [`Access`] that the word records (2 bits: `Read` if the uses since the last write are one entry, of this stream; `Write` if the last write is
/// of this stream, and there are no uses since; otherwise 0), and the number of the last such use on the stream (40 bits).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Last(u64);

const ID_AT: u32 = 42;
const ACCESS_AT: u32 = 40;
const SEQ: u64 = (1 << ACCESS_AT) - 1;

impl Last {
    /// There are no uses.
    pub(crate) const NONE: Self = Self(0);
    /// Only the list of uses, under the lock, says which are there. No stream has the id 0.
    pub(crate) const UNKNOWN: Self = Self(1);

    /// The word for a use that the stream may repeat: a read or a write.
    #[inline]
    pub(crate) fn new(stream: &StreamInner, access: Access, seq: u64) -> Option<Self> {
        let has_word = seq <= SEQ && stream.followed != Self::UNKNOWN;
        match access {
            Access::Read | Access::Write if has_word => {
                Some(Self(stream.followed.0 | (access as u64) << ACCESS_AT | seq))
            }
            _ => None,
        }
    }

    /// The word for uses that the lists have, of a stream with this id.
    pub(crate) const fn followed_by(stream: u64) -> Self {
        match stream < 1 << (u64::BITS - ID_AT) {
            true => Self(stream << ID_AT),
            false => Self::UNKNOWN,
        }
    }

    /// Returns true if later work on the stream runs after all uses.
    #[inline]
    pub(crate) fn is_followed_by(self, stream: &StreamInner) -> bool {
        self == Self::NONE || self.0 >> ID_AT == stream.id()
    }

    /// The use that this word records; `None` if the lists have all uses.
    pub(crate) fn repeats(self) -> Option<Access> {
        let is = |access: &Access| self.0 >> ACCESS_AT & 3 == *access as u64;
        [Access::Read, Access::Write].into_iter().find(is)
    }

    pub(crate) fn seq(self) -> u64 {
        self.0 & SEQ
    }
}

/// The uses of one buffer that may not be done.
#[derive(Default)]
pub(crate) struct InFlight {
    /// A [`Last`], for the usual case, in which one stream uses the buffer again and again in the same way. Only a thread with the lock changes the
    /// stream or the access; any thread may raise the number.
    last: AtomicU64,
    state: Mutex<Uses>,
}

impl InFlight {
    /// A use that another thread records meanwhile is one that the caller's work need not follow, as if the caller had looked first.
    #[inline]
    fn last(&self) -> Last {
        Last(self.last.load(Ordering::Acquire))
    }

    /// Orders later work on `stream` after the uses that it must not overlap. Blocks the caller only for unknown work of other libraries,
    /// which a stream cannot wait for.
    #[inline]
    pub(crate) fn order(&self, stream: &Arc<StreamInner>, access: Access) -> Result<()> {
        match self.last().is_followed_by(stream) {
            true => Ok(()),
            false => self.order_after_others(stream, access),
        }
    }

    #[inline(never)]
    fn order_after_others(&self, stream: &Arc<StreamInner>, access: Access) -> Result<()> {
        let mut waited = SmallVec::<[Use; 1]>::new();
        loop {
            let unknown =
                self.change(|state, last| match state.order(stream, access, &waited) {
                    Ok(None) => (state.last(stream), Ok(SmallVec::new())),
                    Ok(Some(unknown)) => (last, Ok(unknown)),
                    Err(error) => (last, Err(error)),
                })?;
            if unknown.is_empty() {
                return Ok(());
            }
            unknown.iter().try_for_each(Use::wait)?;
            waited.extend(unknown);
        }
    }

    /// Records work that is enqueued on `stream` as number `seq`, after a call of `order`.
    ///
    /// Adds uses that are done to `finished`. The caller drops them when everything is recorded, because a drop may destroy a stream.
    #[inline]
    pub(crate) fn record(
        &self,
        stream: &Arc<StreamInner>,
        seq: u64,
        access: Access,
        finished: &mut Finished,
    ) {
        if let Some(Last(next)) = Last::new(stream, access, seq) {
            // Relaxed, as for a failed exchange: the word only selects the exchange, which fails if it is old. A use that is recorded is released
            // and acquired by the exchange.
            let mut last = self.last.load(Ordering::Relaxed);
            while (last ^ next) >> ACCESS_AT == 0 {
                let (to, success, failure) = (last.max(next), Ordering::AcqRel, Ordering::Relaxed);
                match self.last.compare_exchange_weak(last, to, success, failure) {
                    Ok(_) => return,
                    Err(now) => last = now,
                }
            }
        }
        self.record_another(stream, seq, access, finished);
    }

    #[inline(never)]
    fn record_another(
        &self,
        stream: &Arc<StreamInner>,
        seq: u64,
        access: Access,
        finished: &mut Finished,
    ) {
        self.change(|state, last| {
            state.record(stream, seq, access, finished);
            match last.is_followed_by(stream) {
                true => (state.last(stream), ()),
                false => (state.last_of_one(), ()),
            }
        });
    }

    /// Ends the use by another library that was recorded as number `u64::MAX` of `unknown`: its work is over when work `seq` of `fence` is.
    pub(crate) fn settle(
        &self,
        unknown: &Arc<StreamInner>,
        (fence, seq): (&Arc<StreamInner>, u64),
        access: Access,
    ) {
        // Dropped after the lock is released.
        let mut finished = Finished::new();
        self.change(|state, _| {
            let is_other = |other: &mut Other| !Arc::ptr_eq(&other.used.stream, unknown);
            state.others.retain(is_other);
            state.record(fence, seq, access, &mut finished);
            (state.last_of_one(), ())
        });
    }

    /// Locks the uses, with the last one.
    fn lock(&self) -> MutexGuard<'_, Uses> {
        let mut state = self.state.lock();
        state.catch_up(self.last());
        state
    }

    /// Changes the uses. The closure gets the last one, and returns the new last one; until then, other threads that use the buffer wait for
    /// the lock.
    fn change<R>(&self, change: impl FnOnce(&mut Uses, Last) -> (Last, R)) -> R {
        let mut state = self.state.lock();
        let before = Last(self.last.swap(Last::UNKNOWN.0, Ordering::AcqRel));
        state.catch_up(before);
        let (last, result) = change(&mut state, before);
        self.last.store(last.0, Ordering::Release);
        result
    }

    /// The uses that the host must wait for before it reads (or, with `Write`, writes).
    pub(crate) fn before(&self, access: Access) -> SmallVec<[Use; 2]> {
        let state = self.lock();
        let uses = state.before(access);
        uses.map(|(stream, seq)| Use::of(stream, seq)).collect()
    }

    /// Returns true if pending reads are not ordered with a use by a stream, or by the host, that runs after all writes and moves.
    pub(crate) fn is_read_beside(&self, stream: Option<&Arc<StreamInner>>) -> bool {
        self.lock().others.iter().any(|Other { used, moved }| {
            let same = stream.is_some_and(|stream| Arc::ptr_eq(stream, &used.stream));
            !same && used.seq > *moved && !used.stream.is_known_done(used.seq)
        })
    }

    /// Adds uses of the same memory by a former owner: all uses of this buffer are ordered after them.
    pub(crate) fn inherit(&self, former: &Self) {
        let mut uses = former.before(Access::Write);
        uses.retain(|used| !used.stream.is_known_done(used.seq));
        if uses.is_empty() {
            return;
        }
        self.change(|state, _| {
            for used in &uses {
                // Reads are ordered after it, too.
                state.add(&used.stream, used.seq, Access::Move);
            }
            (state.last_of_one(), ())
        });
    }

    /// The uses of a part of the memory that `former` had.
    pub(crate) fn inherited(former: &Self) -> Self {
        let uses = Self::default();
        uses.inherit(former);
        uses
    }

    /// Removes uses that are known to be done, when the buffer is dropped. Most buffers have none.
    pub(crate) fn retire(&mut self) {
        let last = self.last();
        let state = self.state.get_mut();
        // The usual case: one stream has used the buffer, and its last work is not known to be done.
        let is_pending = |used: &Use| !used.stream.is_known_done(used.seq.max(last.seq()));
        let one = state.writer.as_ref().filter(|_| state.others.is_empty());
        if !state.is_empty() && !one.is_some_and(is_pending) {
            state.catch_up(last);
            state.take_done(0, &mut Finished::new());
            self.last.store(state.last_of_one().0, Ordering::Release);
        }
    }

    /// Removes uses that are known to be done, so that idle buffers keep no stream live.
    pub(crate) fn prune(&self) {
        // Declared first, so dropped last: unused streams are destroyed outside the lock.
        let mut finished = Finished::new();
        self.change(|state, _| {
            state.take_done(0, &mut finished);
            (state.last_of_one(), ())
        });
    }
}
