//! Tracks the uses of a buffer: the list of them under a lock, and the last one in a word.

pub(crate) use crate::context::uses::{Access, Finished, Use};

use crate::context::last::{AtomicLast, Last, Repeat};
use crate::context::stream::StreamInner;
use crate::context::uses::{Other, Uses};
use crate::error::Result;
use crate::sync::{Mutex, MutexGuard};
use smallvec::SmallVec;
use std::sync::Arc;

/// The uses of one buffer that may not be done.
#[derive(Default)]
pub(crate) struct InFlight {
    /// The usual case, in which one stream uses the buffer again and again in the same way, without the lock.
    last: AtomicLast,
    state: Mutex<Uses>,
}

impl InFlight {
    /// Orders later work on `stream` after the uses that it must not overlap. Blocks the caller only for unknown work of other libraries,
    /// which a stream cannot wait for.
    #[inline]
    pub(crate) fn order(&self, stream: &Arc<StreamInner>, access: Access) -> Result<()> {
        match self.last.load().is_followed_by(stream) {
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
        let repeats = match access {
            Access::Read => self.last.repeat(stream, Repeat::Read, seq),
            Access::Write => self.last.repeat(stream, Repeat::Write, seq),
            Access::Move | Access::WritePart => false,
        };
        if !repeats {
            self.record_another(stream, seq, access, finished);
        }
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
        state.catch_up(self.last.load());
        state
    }

    /// Changes the uses. The closure gets the last one, and returns the new last one; until then, other threads that use the buffer wait for
    /// the lock.
    fn change<R>(&self, change: impl FnOnce(&mut Uses, Last) -> (Last, R)) -> R {
        let mut state = self.state.lock();
        let before = self.last.swap(Last::UNKNOWN);
        state.catch_up(before);
        let (last, result) = change(&mut state, before);
        self.last.store(last);
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
        let last = self.last.load();
        let state = self.state.get_mut();
        // The usual case: one stream has used the buffer, and its last work is not known to be done.
        let is_pending = |used: &Use| !used.stream.is_known_done(used.seq.max(last.seq()));
        let one = state.writer.as_ref().filter(|_| state.others.is_empty());
        if !state.is_empty() && !one.is_some_and(is_pending) {
            state.catch_up(last);
            state.take_done(0, &mut Finished::new());
            self.last.store(state.last_of_one());
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
