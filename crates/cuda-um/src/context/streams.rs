//! Streams as the device and the gate list them, and the events that dropped streams leave.

use crate::context::event::RawEvent;
use crate::context::stream::StreamInner;
use crate::driver::Api;
use crate::driver::owned::Owned;
use crate::error::Result;
use crate::sync::Mutex;
use cuda_um_sys::cudaStream_t;
use smallvec::SmallVec;
use std::sync::{Arc, OnceLock, Weak};

/// A stream in a list, which does not keep the stream live.
pub(crate) struct Listed {
    pub(crate) api: Arc<Api>,
    pub(crate) ordinal: u32,
    stream: Weak<StreamInner>,
    tombstone: OnceLock<Tombstone>,
}

/// The tombstone event of a dropped stream: it shows if the stream's work is done.
pub(crate) enum Tombstone {
    /// All work was done at the drop.
    Idle,
    /// An event after the last work.
    Event(Arc<RawEvent>),
    /// The stream itself, if no event could be recorded. It is destroyed with its last list.
    Stream(Owned<cudaStream_t>),
    /// Nothing that shows it: only a wait for the device tells.
    Lost,
}

impl Listed {
    pub(crate) fn new(api: &Arc<Api>, ordinal: u32, stream: Weak<StreamInner>) -> Self {
        Self {
            api: Arc::clone(api),
            ordinal,
            stream,
            tombstone: OnceLock::new(),
        }
    }

    /// Must be called when the stream is dropped.
    pub(crate) fn leave(&self, tombstone: Tombstone) {
        let _ = self.tombstone.set(tombstone);
    }

    /// Returns true if the stream was dropped and left its tombstone event.
    pub(crate) fn is_gone(&self) -> bool {
        self.tombstone.get().is_some()
    }

    pub(crate) fn is_idle(&self) -> Result<bool> {
        if let Some(stream) = self.stream.upgrade() {
            return stream.is_idle();
        }
        match self.tombstone.get() {
            Some(Tombstone::Idle) => Ok(true),
            Some(Tombstone::Event(event)) => event.is_complete(),
            Some(Tombstone::Stream(stream)) => stream.is_idle(),
            // Without a tombstone, the stream is being dropped by another thread.
            Some(Tombstone::Lost) | None => Ok(false),
        }
    }
}

/// Removes dropped streams whose work is done, so that they do not accumulate.
pub(crate) fn prune(listed: &mut Vec<Arc<Listed>>) {
    listed.retain(|listed| !(listed.is_gone() && listed.is_idle().unwrap_or(false)));
}

pub(crate) struct Streams {
    api: Arc<Api>,
    ordinal: u32,
    listed: Mutex<Vec<Arc<Listed>>>,
}

impl Streams {
    pub(crate) fn new(api: &Arc<Api>, ordinal: u32) -> Self {
        Self {
            api: Arc::clone(api),
            ordinal,
            listed: Mutex::default(),
        }
    }

    pub(crate) fn add(&self, stream: &Arc<Listed>) {
        let mut listed = self.listed.lock();
        // Only before it grows: each pruning makes a call for each dropped stream.
        if listed.len() == listed.capacity() {
            prune(&mut listed);
        }
        listed.push(Arc::clone(stream));
    }

    /// Waits for all work of the device, including the work of other libraries.
    pub(crate) fn synchronize(&self) -> Result<()> {
        let (streams, gone): (SmallVec<[_; 8]>, Vec<_>) = {
            let listed = self.listed.lock();
            let live = listed.iter().filter_map(|listed| listed.stream.upgrade());
            let gone = listed.iter().filter(|listed| listed.is_gone());
            (live.collect(), gone.cloned().collect())
        };
        let submitted: SmallVec<[_; 8]> = streams.iter().map(|stream| stream.submitted()).collect();
        self.api.device_synchronize(self.ordinal)?;
        let waited_for = streams.iter().zip(submitted);
        waited_for.for_each(|(stream, seq)| stream.completed_to(seq));
        if !gone.is_empty() {
            remove(&mut self.listed.lock(), &gone);
        }
        Ok(())
    }

    /// Returns true if all work that this library enqueued on the device is known to be done. Queries only what dropped streams left.
    pub(crate) fn is_known_idle(&self) -> bool {
        let mut listed = self.listed.lock();
        let is_known_idle = |stream: Arc<StreamInner>| stream.is_known_idle();
        let mut live = listed.iter().filter_map(|listed| listed.stream.upgrade());
        if !live.all(is_known_idle) {
            return false;
        }
        prune(&mut listed);
        !listed.iter().any(|listed| listed.is_gone())
    }
}

pub(crate) fn remove(from: &mut Vec<Arc<Listed>>, streams: &[Arc<Listed>]) {
    from.retain(|listed| !streams.iter().any(|stream| Arc::ptr_eq(stream, listed)));
}
