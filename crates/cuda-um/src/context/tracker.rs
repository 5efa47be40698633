//! Tracks the uses of a buffer: the last write, and the reads and moves since.

use crate::context::stream::StreamInner;
use crate::error::Result;
use crate::sync::Mutex;
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
    pub(crate) fn order(&self, stream: &Arc<StreamInner>, access: Access) -> Result<()> {
        let mut waited = SmallVec::<[Use; 1]>::new();
        while let Some(unknown) = self.order_known(stream, access, &waited)? {
            unknown.wait()?;
            waited.push(unknown);
        }
        Ok(())
    }

    /// Returns a use that the host must wait for first.
    fn order_known(
        &self,
        stream: &Arc<StreamInner>,
        access: Access,
        waited: &[Use],
    ) -> Result<Option<Use>> {
        let state = self.state.lock();
        let order = |used: &Use| match used.must_wait() {
            false => used.order(stream).map(|()| None),
            true => {
                let is_waited = waited.iter().any(|waited| waited.is_same(used));
                Ok((!is_waited).then(|| used.clone()))
            }
        };
        let mut unknown = None;
        if let Some(writer) = &state.writer {
            unknown = order(writer)?;
        }
        for other in &state.others {
            if access.is_write() {
                unknown = unknown.or(order(&other.used)?);
            } else if let Some(moved) = other.last_move() {
                unknown = unknown.or(order(&moved)?);
            }
        }
        Ok(unknown)
    }

    /// Records work that is enqueued on `stream` as number `seq`, after a call of `order`.
    ///
    /// Returns uses that are done. The caller drops them when everything is recorded, because a drop may destroy a stream.
    pub(crate) fn record(&self, stream: &Arc<StreamInner>, seq: u64, access: Access) -> Finished {
        let mut state = self.state.lock();
        let new = || Use {
            stream: Arc::clone(stream),
            seq,
        };
        if access == Access::Write {
            // The work runs after all others and has exclusive access: no use was added since `order`.
            let before = match &mut state.writer {
                Some(writer) if Arc::ptr_eq(&writer.stream, stream) => {
                    writer.seq = seq;
                    None
                }
                writer => writer.replace(new()),
            };
            if before.is_none() && state.others.is_empty() {
                return Finished::new();
            }
            let others = std::mem::take(&mut state.others);
            return others
                .into_iter()
                .map(|other| other.used)
                .chain(before)
                .collect();
        }
        match state.add(stream, seq, access) {
            // Otherwise a buffer that is only read would keep every stream live on which it was read.
            true => state.take_done(1),
            false => Finished::new(),
        }
    }

    /// Records that another library uses the memory, until [`settle`](Self::settle): its work is not known.
    pub(crate) fn lend(&self, unknown: &Arc<StreamInner>) {
        self.state.lock().add(unknown, u64::MAX, Access::WritePart);
    }

    /// Ends the use by another library: its work is over when work `seq` of `fence` is.
    pub(crate) fn settle(
        &self,
        unknown: &Arc<StreamInner>,
        (fence, seq): (&Arc<StreamInner>, u64),
        access: Access,
    ) -> Option<Use> {
        let mut state = self.state.lock();
        let is_lent = |other: &Other| Arc::ptr_eq(&other.used.stream, unknown);
        let at = state.others.iter().position(is_lent);
        let ended = at.map(|at| state.others.remove(at).used);
        state.add(fence, seq, access);
        ended
    }

    /// The uses that the host must wait for before it reads (or, with `Write`, writes).
    pub(crate) fn before(&self, access: Access) -> SmallVec<[Use; 2]> {
        let state = self.state.lock();
        let others = state.others.iter().filter_map(|other| match access {
            Access::Write | Access::WritePart => Some(other.used.clone()),
            Access::Read | Access::Move => other.last_move(),
        });
        state.writer.iter().cloned().chain(others).collect()
    }

    /// Returns true if pending reads are not ordered with a use by a stream, or by the host, that runs after all writes and moves.
    pub(crate) fn is_read_beside(&self, stream: Option<&Arc<StreamInner>>) -> bool {
        self.state
            .lock()
            .others
            .iter()
            .any(|Other { used, moved }| {
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
        let mut state = self.state.lock();
        for used in uses {
            if used.stream.is_known_done(used.seq) {
                continue;
            }
            let same = |other: &&mut Other| Arc::ptr_eq(&other.used.stream, &used.stream);
            // Recorded as a move: reads are ordered after it, too.
            match state.others.iter_mut().find(same) {
                Some(other) => {
                    other.used.seq = other.used.seq.max(used.seq);
                    other.moved = other.moved.max(used.seq);
                }
                None => state.others.push(Other {
                    moved: used.seq,
                    used,
                }),
            }
        }
    }

    /// Takes all uses that are not known to be done, when the buffer is dropped. Most buffers have none.
    pub(crate) fn take(&mut self) -> Option<Box<Self>> {
        let state = self.state.get_mut();
        if state.is_empty() {
            return None;
        }
        state.take_done(0);
        (!state.is_empty()).then(|| Box::new(std::mem::take(self)))
    }

    /// Removes uses that are known to be done, so that idle buffers keep no stream live.
    pub(crate) fn prune(&self) {
        // Declared first, so dropped last: unused streams are destroyed outside the lock.
        let _finished;
        let mut state = self.state.lock();
        _finished = state.take_done(0);
    }
}

/// Uses that are done.
pub(crate) type Finished = SmallVec<[Use; 2]>;

impl State {
    fn is_empty(&self) -> bool {
        self.writer.is_none() && self.others.is_empty()
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

    /// Removes uses that are done, except the first `kept` of the others. Queries the device only if there are many. Uses that are not
    /// done keep their positions.
    fn take_done(&mut self, kept: usize) -> Finished {
        let ask = self.others.len() >= MANY + kept;
        let is_done = |used: &Use| {
            used.stream.is_known_done(used.seq) || ask && used.is_done().unwrap_or(false)
        };
        let mut done = Finished::new();
        for at in (kept..self.others.len()).rev() {
            if is_done(&self.others[at].used) {
                done.push(self.others.remove(at).used);
            }
        }
        done.extend(self.writer.take_if(|writer| is_done(writer)));
        done
    }
}

/// The number of streams of a buffer's uses above which the device is queried for finished uses.
const MANY: usize = 8;
