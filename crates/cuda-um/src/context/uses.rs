//! The list of a buffer's uses: the last write, and the reads and moves since.

use crate::context::stream::StreamInner;
use crate::context::tracker::Last;
use crate::error::Result;
use smallvec::SmallVec;
use std::sync::Arc;

/// A tracked use: work on a stream, up to a number. It keeps the stream live.
#[derive(Clone)]
pub(crate) struct Use {
    pub(crate) stream: Arc<StreamInner>,
    pub(crate) seq: u64,
}

impl Use {
    pub(crate) fn of(stream: &Arc<StreamInner>, seq: u64) -> Self {
        let stream = Arc::clone(stream);
        Self { stream, seq }
    }

    pub(crate) fn wait(&self) -> Result<()> {
        self.stream.wait_for(self.seq)
    }

    pub(crate) fn is_done(&self) -> Result<bool> {
        self.stream.is_done(self.seq)
    }

    /// Waits for uses, on a thread of the library.
    pub(crate) fn wait_for_each(uses: &[Self]) -> Result<()> {
        let first = uses.first();
        let _tolerant = first.map(|used| used.stream.api().tolerate_captures());
        uses.iter().try_for_each(Self::wait)
    }

    /// Returns true if only a wait by the host tells that the use is over.
    pub(crate) fn must_wait(&self) -> bool {
        self.stream.must_wait_for(self.seq)
    }

    /// Like [`is_done`](Self::is_done); an error if only a wait by the host tells it, because no query would ever return true.
    pub(crate) fn is_done_or_must_wait(&self) -> Result<bool> {
        match self.must_wait() {
            true => self.stream.check_known().map(|()| false),
            false => self.is_done(),
        }
    }

    /// Orders later work on `stream` after this use. Does not block the caller; an error for unknown work.
    pub(crate) fn order(&self, stream: &Arc<StreamInner>) -> Result<()> {
        stream.order_after(&self.stream, self.seq)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// The work reads; it may run concurrently with other reads.
    Read = 1,
    /// The work writes. The caller has exclusive access to the buffer (`&mut`).
    Write,
    /// The work changes the location, not the contents (a prefetch). Later uses are ordered after it, so that they find the pages in
    /// place.
    Move,
    /// The work writes. The caller has exclusive access to a part of the buffer, and other threads may use other parts meanwhile. So it does
    /// not replace the uses before it, as a write of the whole buffer does.
    WritePart,
}

impl Access {
    pub(crate) fn is_write(self) -> bool {
        matches!(self, Self::Write | Self::WritePart)
    }
}

#[derive(Default)]
pub(crate) struct Uses {
    pub(super) writer: Option<Use>,
    /// The uses since the last write, one entry for each stream.
    pub(super) others: SmallVec<[Other; 2]>,
}

/// A use since the last write.
pub(crate) struct Other {
    pub(super) used: Use,
    /// The number of the last move, or write of a part, on this stream; 0 for none.
    pub(super) moved: u64,
}

pub(crate) type Finished = SmallVec<[Use; 16]>;

impl Uses {
    pub(super) fn is_empty(&self) -> bool {
        self.writer.is_none() && self.others.is_empty()
    }

    /// The uses that later work must not overlap.
    pub(super) fn before(&self, access: Access) -> impl Iterator<Item = (&Arc<StreamInner>, u64)> {
        let others = self.others.iter().map(move |Other { used, moved }| {
            let seq = if access.is_write() { used.seq } else { *moved };
            (&used.stream, seq)
        });
        let writer = self.writer.iter().map(|used| (&used.stream, used.seq));
        writer.chain(others).filter(|(_, seq)| *seq > 0)
    }

    /// Orders later work on `stream` after the uses that it must not overlap. Returns those that are not in `waited` and that the host must wait
    /// for first; `None` if the work runs after all uses.
    pub(super) fn order(
        &self,
        stream: &Arc<StreamInner>,
        access: Access,
        waited: &[Use],
    ) -> Result<Option<SmallVec<[Use; 1]>>> {
        let is_of = |other: &Other| Arc::ptr_eq(&other.used.stream, stream);
        let mut follows_all = access.is_write() || self.others.iter().all(is_of);
        let mut unknown = SmallVec::new();
        for (other, seq) in self.before(access) {
            if !other.must_wait_for(seq) {
                stream.order_after(other, seq)?;
                continue;
            }
            // More such work may follow.
            follows_all = false;
            let is_same = |used: &Use| Arc::ptr_eq(&used.stream, other) && used.seq == seq;
            if !waited.iter().any(is_same) {
                unknown.push(Use::of(other, seq));
            }
        }
        Ok((!follows_all).then_some(unknown))
    }

    /// Records work, as [`InFlight::record`].
    pub(super) fn record(
        &mut self,
        stream: &Arc<StreamInner>,
        seq: u64,
        access: Access,
        finished: &mut Finished,
    ) {
        if access == Access::Write {
            // The work runs after all others and has exclusive access: no use was added since `order`.
            finished.extend(self.writer.replace(Use::of(stream, seq)));
            finished.extend(self.others.drain(..).map(|other| other.used));
        } else if self.add(stream, seq, access) {
            // Otherwise a buffer that is only read would keep every stream live on which it was read.
            self.take_done(1, finished);
        }
    }

    /// Adds a use that replaces no other one. Returns true if the stream had none; then it is the first entry.
    pub(super) fn add(&mut self, stream: &Arc<StreamInner>, seq: u64, access: Access) -> bool {
        // Reads are ordered after the write of a part as after a move.
        let moved = if access == Access::Read { 0 } else { seq };
        let same = |other: &&mut Other| Arc::ptr_eq(&other.used.stream, stream);
        if let Some(other) = self.others.iter_mut().find(same) {
            other.used.seq = other.used.seq.max(seq);
            other.moved = other.moved.max(moved);
            return false;
        }
        let used = Use::of(stream, seq);
        self.others.insert(0, Other { used, moved });
        true
    }

    /// Adds the last use, which was recorded without the lock.
    pub(super) fn catch_up(&mut self, last: Last) {
        let used = match last.repeats() {
            Some(Access::Write) => self.writer.as_mut(),
            Some(Access::Read) => self.others.first_mut().map(|other| &mut other.used),
            _ => None,
        };
        if let Some(used) = used {
            used.seq = used.seq.max(last.seq());
        }
    }

    /// The last use, if later work on `stream` runs after all uses.
    pub(super) fn last(&self, stream: &StreamInner) -> Last {
        let (access, used) = match (&self.writer, &self.others[..]) {
            (_, [Other { used, .. }]) => (Access::Read, used),
            (Some(used), []) => (Access::Write, used),
            _ => return stream.followed,
        };
        let is_its = used.stream.id() == stream.id();
        let last = is_its.then(|| Last::new(stream, access, used.seq));
        last.flatten().unwrap_or(stream.followed)
    }

    /// The last use, if all uses are of one stream.
    pub(super) fn last_of_one(&self) -> Last {
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
    pub(super) fn take_done(&mut self, kept: usize, done: &mut Finished) {
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
