//! What a device may still do with a buffer: who wrote it last, and who has read or moved it since.

use crate::context::stream::StreamInner;
use crate::error::Result;
use crate::sync::Mutex;
use smallvec::SmallVec;
use std::sync::Arc;

/// Work on a stream, up to a number. It keeps the stream alive.
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

    /// Makes later work on `stream` run after it, without waiting here.
    pub(crate) fn order(&self, stream: &Arc<StreamInner>) -> Result<()> {
        stream.order_after(&self.stream, self.seq)
    }
}

/// How work uses a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Reads; beside other reads.
    Read,
    /// Changes where it lives, not what it holds (a prefetch). Later users are better off after it.
    Move,
    /// Writes. The caller has the buffer exclusively (`&mut`).
    Write,
}

/// The uses of one buffer that may not be done.
#[derive(Default)]
pub(crate) struct InFlight {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    writer: Option<Use>,
    /// One entry a stream.
    others: SmallVec<[Other; 2]>,
}

struct Other {
    used: Use,
    /// The last move on this stream; 0 for none.
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
    /// Makes later work on `stream` run after what it must not overlap.
    pub(crate) fn order(&self, stream: &Arc<StreamInner>, access: Access) -> Result<()> {
        let state = self.state.lock();
        if let Some(writer) = &state.writer {
            writer.order(stream)?;
        }
        for other in &state.others {
            if access == Access::Write {
                other.used.order(stream)?;
            } else if let Some(moved) = other.last_move() {
                moved.order(stream)?;
            }
        }
        Ok(())
    }

    /// Notes work that is enqueued on `stream`, as number `seq`, after `order`.
    ///
    /// Gives the uses that are over. To drop one may destroy its stream, so the caller drops them when everything is noted.
    pub(crate) fn record(&self, stream: &Arc<StreamInner>, seq: u64, access: Access) -> Finished {
        let mut state = self.state.lock();
        let new = || Use {
            stream: Arc::clone(stream),
            seq,
        };
        if access == Access::Write {
            // It runs after all others, and is exclusive: nothing was added since `order`.
            let before = match &mut state.writer {
                Some(writer) if Arc::ptr_eq(&writer.stream, stream) => {
                    writer.seq = seq;
                    None
                }
                writer => writer.replace(new()),
            };
            let others = std::mem::take(&mut state.others);
            return others
                .into_iter()
                .map(|other| other.used)
                .chain(before)
                .collect();
        }
        let moved = if access == Access::Move { seq } else { 0 };
        let same = |other: &&mut Other| Arc::ptr_eq(&other.used.stream, stream);
        if let Some(other) = state.others.iter_mut().find(same) {
            other.used.seq = other.used.seq.max(seq);
            other.moved = other.moved.max(moved);
            return Finished::new();
        }
        // Noted before anything else is looked at.
        state.others.insert(0, Other { used: new(), moved });
        // Otherwise a buffer that is only read would keep every stream that it was ever read on.
        state.take_done(1)
    }

    /// What the host must wait for before it reads (or, with `Write`, writes).
    pub(crate) fn before(&self, access: Access) -> SmallVec<[Use; 2]> {
        let state = self.state.lock();
        let others = state.others.iter().filter_map(|other| match access {
            Access::Write => Some(other.used.clone()),
            Access::Read | Access::Move => other.last_move(),
        });
        state.writer.iter().cloned().chain(others).collect()
    }

    /// Whether reads that may still run are not ordered with what a stream, or the host, does after all writes and moves.
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

    /// Adds what may still use the same memory for others: everything here comes after all of that.
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
            // As a move: reads come after it, too.
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

    /// Takes all that is not known to be done, at the buffer's end; most often that is nothing.
    pub(crate) fn take(&mut self) -> Option<Box<Self>> {
        let state = self.state.get_mut();
        if state.is_empty() {
            return None;
        }
        state.take_done(0);
        (!state.is_empty()).then(|| Box::new(std::mem::take(self)))
    }

    /// Forgets what is known to be done, so that idle buffers hold no streams.
    pub(crate) fn prune(&self) {
        // Declared first, so dropped last: streams that nothing uses any more are destroyed without the lock.
        let _finished;
        let mut state = self.state.lock();
        _finished = state.take_done(0);
    }
}

/// Uses that are over.
pub(crate) type Finished = SmallVec<[Use; 2]>;

impl State {
    fn is_empty(&self) -> bool {
        self.writer.is_none() && self.others.is_empty()
    }

    /// Takes out what is done, but for the first `kept` of the others; asks the device only when there is much. What is not done stays in
    /// its place all the while.
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

/// Streams that a buffer is used on before the device is asked which of them are done with it.
const MANY: usize = 8;
