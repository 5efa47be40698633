//! Tracks the uses of a buffer: the last write, and the reads and moves since.

use crate::context::last::{AtomicLast, Last, Repeat};
use crate::context::stream::StreamInner;
use crate::error::Result;
use crate::sync::{Mutex, MutexGuard};
use smallvec::SmallVec;
use std::sync::Arc;

/// A tracked use: work on a stream, up to a number. It keeps the stream live.
#[derive(Clone)]
pub(crate) struct Use {
    pub(crate) stream: Arc<StreamInner>,
    pub(crate) seq: u64,
}

impl Use {
    pub(crate) fn wait(&self) -> Result<()> {
        self.stream.wait_for(self.seq)
    }

    pub(crate) fn is_done(&self) -> Result<bool> {
        self.stream.is_done(self.seq)
    }

    fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.stream, &other.stream) && self.seq == other.seq
    }

    /// Returns true if only a wait by the host tells that the use is over.
    fn must_wait(&self) -> bool {
        self.stream.must_wait_for(self.seq)
    }

    /// Like [`is_done`](Self::is_done); an error if only a wait by the host tells it, because no query would ever return true.
    pub(crate) fn is_done_or_must_wait(&self) -> Result<bool> {
        match self.must_wait() {
            true => self.stream.check_here().map(|()| false),
            false => self.is_done(),
        }
    }

    /// Orders later work on `stream` after this use. Does not block the caller.
    pub(crate) fn order(&self, stream: &Arc<StreamInner>) -> Result<()> {
        stream.order_after(&self.stream, self.seq)
    }
}

/// How work uses a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// The work reads; it may run concurrently with other reads.
    Read,
    /// The work changes the location, not the contents (a prefetch). Later uses are ordered after it, so that they find the pages in
    /// place.
    Move,
    /// The work writes. The caller has exclusive access to the buffer (`&mut`).
    Write,
    /// The work writes. The caller has exclusive access to a part of the buffer, and other threads may use other parts meanwhile. So it does
    /// not replace the uses before it, as a write of the whole buffer does.
    WritePart,
}

impl Access {
    pub(crate) fn is_write(self) -> bool {
        matches!(self, Self::Write | Self::WritePart)
    }
}

/// The uses of one buffer that may not be done.
#[derive(Default)]
pub(crate) struct InFlight {
    /// The usual case, in which one stream uses the buffer again and again in the same way, without the lock.
    last: AtomicLast,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    writer: Option<Use>,
    /// The uses since the last write, one entry for each stream.
    others: SmallVec<[Other; 2]>,
}

struct Other {
    used: Use,
    /// The number of the last move, or write of a part, on this stream; 0 for none.
    moved: u64,
}

impl Other {
    fn last_move(&self) -> Option<Use> {
        (self.moved > 0).then(|| Use {
            stream: Arc::clone(&self.used.stream),
            seq: self.moved,
        })
    }
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
        let order = |waited: &[Use]| {
            self.change(|state, last| match state.order(stream, access, waited) {
                Ok(Ordered::All) => (state.last(stream), Ok(None)),
                Ok(Ordered::NotOthers) => (last, Ok(None)),
                Ok(Ordered::NotYet(unknown)) => (last, Ok(Some(unknown))),
                Err(error) => (last, Err(error)),
            })
        };
        while let Some(unknown) = order(&waited)? {
            unknown.wait()?;
            waited.push(unknown);
        }
        Ok(())
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

    /// Records that another library uses the memory, until [`settle`](Self::settle): its work is not known.
    pub(crate) fn lend(&self, unknown: &Arc<StreamInner>) {
        self.change(|state, _| {
            state.add(unknown, u64::MAX, Access::WritePart);
            (state.last_of_one(), ())
        });
    }

    /// Ends the use by another library: its work is over when work `seq` of `fence` is.
    pub(crate) fn settle(
        &self,
        unknown: &Arc<StreamInner>,
        (fence, seq): (&Arc<StreamInner>, u64),
        access: Access,
    ) -> Option<Use> {
        let is_lent = |other: &Other| Arc::ptr_eq(&other.used.stream, unknown);
        self.change(|state, _| {
            let at = state.others.iter().position(is_lent);
            let ended = at.map(|at| state.others.remove(at).used);
            state.add(fence, seq, access);
            (state.last_of_one(), ended)
        })
    }

    /// Locks the uses, with the last one.
    fn lock(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock();
        state.catch_up(self.last.load());
        state
    }

    /// Changes the uses. The closure gets the last one, and returns the new last one; until then, other threads that use the buffer wait for
    /// the lock.
    fn change<R>(&self, change: impl FnOnce(&mut State, Last) -> (Last, R)) -> R {
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
        let others = state.others.iter().filter_map(|other| match access {
            Access::Write | Access::WritePart => Some(other.used.clone()),
            Access::Read | Access::Move => other.last_move(),
        });
        state.writer.iter().cloned().chain(others).collect()
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
        let uses = former.before(Access::Write);
        if uses.is_empty() {
            return;
        }
        self.change(|state, _| {
            uses.into_iter().for_each(|used| state.inherit(used));
            (state.last_of_one(), ())
        });
    }

    /// Takes all uses that are not known to be done, when the buffer is dropped. Most buffers have none.
    pub(crate) fn take(&mut self) -> Option<Box<Self>> {
        let state = self.state.get_mut();
        if state.is_empty() {
            return None;
        }
        self.prune();
        (!self.state.get_mut().is_empty()).then(|| Box::new(std::mem::take(self)))
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

/// Uses that are done.
pub(crate) type Finished = SmallVec<[Use; 16]>;

/// The order of later work on a stream and the uses of a buffer.
enum Ordered {
    /// The work runs after all uses.
    All,
    /// It runs after those that it must not overlap.
    NotOthers,
    /// The host must wait for this use first, and try again.
    NotYet(Use),
}

impl State {
    fn is_empty(&self) -> bool {
        self.writer.is_none() && self.others.is_empty()
    }

    /// Orders later work on `stream` after the uses that it must not overlap.
    fn order(&self, stream: &Arc<StreamInner>, access: Access, waited: &[Use]) -> Result<Ordered> {
        let mut follows_all = true;
        let mut unknown = None;
        let mut order = |used: &Use| {
            if !used.must_wait() {
                return used.order(stream);
            }
            // More such work may follow.
            follows_all = false;
            if unknown.is_none() && !waited.iter().any(|waited| waited.is_same(used)) {
                unknown = Some(used.clone());
            }
            Ok(())
        };
        if let Some(writer) = &self.writer {
            order(writer)?;
        }
        let mut has_reads_beside = false;
        for other in &self.others {
            if access.is_write() {
                order(&other.used)?;
                continue;
            }
            if let Some(moved) = other.last_move() {
                order(&moved)?;
            }
            has_reads_beside |= !Arc::ptr_eq(&other.used.stream, stream);
        }
        Ok(match unknown {
            Some(unknown) => Ordered::NotYet(unknown),
            None if follows_all && !has_reads_beside => Ordered::All,
            None => Ordered::NotOthers,
        })
    }

    /// Records work, as [`InFlight::record`].
    fn record(
        &mut self,
        stream: &Arc<StreamInner>,
        seq: u64,
        access: Access,
        finished: &mut Finished,
    ) {
        if access == Access::Write {
            // The work runs after all others and has exclusive access: no use was added since `order`.
            let stream = Arc::clone(stream);
            finished.extend(self.writer.replace(Use { stream, seq }));
            finished.extend(self.others.drain(..).map(|other| other.used));
        } else if self.add(stream, seq, access) {
            // Otherwise a buffer that is only read would keep every stream live on which it was read.
            self.take_done(1, finished);
        }
    }

    /// Adds a use that replaces no other one. Returns true if the stream had none; then it is the first entry.
    fn add(&mut self, stream: &Arc<StreamInner>, seq: u64, access: Access) -> bool {
        // Reads are ordered after the write of a part as after a move.
        let moved = if access == Access::Read { 0 } else { seq };
        let same = |other: &&mut Other| Arc::ptr_eq(&other.used.stream, stream);
        if let Some(other) = self.others.iter_mut().find(same) {
            other.used.seq = other.used.seq.max(seq);
            other.moved = other.moved.max(moved);
            return false;
        }
        let used = Use {
            stream: Arc::clone(stream),
            seq,
        };
        self.others.insert(0, Other { used, moved });
        true
    }

    /// Adds a use of the same memory by a former owner, as a move: reads are ordered after it, too.
    fn inherit(&mut self, used: Use) {
        if used.stream.is_known_done(used.seq) {
            return;
        }
        let same = |other: &&mut Other| Arc::ptr_eq(&other.used.stream, &used.stream);
        match self.others.iter_mut().find(same) {
            Some(other) => {
                other.used.seq = other.used.seq.max(used.seq);
                other.moved = other.moved.max(used.seq);
            }
            None => self.others.push(Other {
                moved: used.seq,
                used,
            }),
        }
    }

    /// Adds the last use, which was recorded without the lock.
    fn catch_up(&mut self, last: Last) {
        let used = match last.repeats() {
            Some(Repeat::Write) => self.writer.as_mut(),
            Some(Repeat::Read) => self.others.first_mut().map(|other| &mut other.used),
            None => None,
        };
        if let Some(used) = used {
            used.seq = used.seq.max(last.seq());
        }
    }

    /// The last use, if later work on `stream` runs after all uses.
    fn last(&self, stream: &StreamInner) -> Last {
        match (&self.writer, &self.others[..]) {
            (_, [Other { used, .. }]) if used.stream.id() == stream.id() => {
                Last::new(stream, Repeat::Read, used.seq)
            }
            (Some(used), []) if used.stream.id() == stream.id() => {
                Last::new(stream, Repeat::Write, used.seq)
            }
            _ => Last::followed_by(stream),
        }
    }

    /// The last use, if all uses are of one stream.
    fn last_of_one(&self) -> Last {
        let others = self.others.iter().map(|other| &other.used);
        let mut uses = self.writer.iter().chain(others);
        match uses.next() {
            None => Last::NONE,
            Some(first) if uses.all(|used| Arc::ptr_eq(&used.stream, &first.stream)) => {
                self.last(&first.stream)
            }
            Some(_) => Last::UNKNOWN,
        }
    }

    /// Removes uses that are done, except the first `kept` of the others. Queries the device only if there are many. Uses that are not
    /// done keep their positions.
    fn take_done(&mut self, kept: usize, done: &mut Finished) {
        let ask = self.others.len() >= MANY + kept;
        let is_done = |used: &Use| {
            used.stream.is_known_done(used.seq) || ask && used.is_done().unwrap_or(false)
        };
        for at in (kept..self.others.len()).rev() {
            if is_done(&self.others[at].used) {
                done.push(self.others.remove(at).used);
            }
        }
        done.extend(self.writer.take_if(|writer| is_done(writer)));
    }
}

/// The number of streams of a buffer's uses above which the device is queried for finished uses.
const MANY: usize = 8;
