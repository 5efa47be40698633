//! The streams of a device: one list of those that may have pending work, for the gate and for frees.

use crate::context::driver_state::Pending;
use crate::context::event::RawEvent;
use crate::context::stream::StreamInner;
use crate::driver::Api;
use crate::driver::owned::Owned;
use crate::error::Result;
use crate::sync::Mutex;
use cuda_um_sys::cudaStream_t;
use std::sync::{Arc, OnceLock, Weak};

/// The streams of a device. It outlives the device if the gate holds it.
pub(crate) struct Streams {
    api: Arc<Api>,
    ordinal: u32,
    listed: Mutex<Vec<Listed>>,
}

/// A stream, and the slot for its tombstone event.
struct Listed {
    stream: Weak<StreamInner>,
    tombstone: Arc<OnceLock<Tombstone>>,
}

/// The tombstone event of a dropped stream: it shows if the stream's work is done.
pub(crate) enum Tombstone {
    /// All work was done at the drop.
    Idle,
    /// An event after the last work.
    Event(RawEvent),
    /// The stream itself, if no event could be recorded. It is destroyed with its place in the list.
    Stream(Arc<Owned<cudaStream_t>>),
}

impl Streams {
    pub(crate) fn new(api: &Arc<Api>, ordinal: u32) -> Self {
        Self {
            api: Arc::clone(api),
            ordinal,
            listed: Mutex::default(),
        }
    }

    pub(crate) fn ordinal(&self) -> u32 {
        self.ordinal
    }

    /// Adds a new stream.
    pub(crate) fn add(&self, stream: &Arc<StreamInner>) {
        let mut listed = self.listed.lock();
        prune(&mut listed);
        listed.push(Listed {
            stream: Arc::downgrade(stream),
            tombstone: Arc::clone(stream.tombstone()),
        });
    }

    /// Waits for all work of the device, including the work of other libraries.
    pub(crate) fn synchronize(&self) -> Result<()> {
        self.api.origin.check("cudaDeviceSynchronize")?;
        let (streams, gone): (Vec<_>, Vec<_>) = {
            let listed = self.listed.lock();
            let live = listed.iter().filter_map(|listed| listed.stream.upgrade());
            let gone = listed.iter().filter(|listed| listed.is_gone());
            (
                live.collect(),
                gone.map(|gone| Arc::clone(&gone.tombstone)).collect(),
            )
        };
        let submitted: Vec<_> = streams.iter().map(|stream| stream.submitted()).collect();
        self.api.device_synchronize(self.ordinal)?;
        let waited_for = streams.iter().zip(submitted);
        waited_for.for_each(|(stream, seq)| stream.completed_to(seq));
        let was_gone =
            |listed: &Listed| gone.iter().any(|gone| Arc::ptr_eq(gone, &listed.tombstone));
        self.listed.lock().retain(|listed| !was_gone(listed));
        Ok(())
    }

    /// Queries every stream. Does not wait.
    pub(crate) fn is_idle(&self) -> Result<bool> {
        let mut listed = self.listed.lock();
        prune(&mut listed);
        for listed in &*listed {
            if !listed.is_idle()? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Removes dropped streams whose work is done, so that they do not accumulate.
fn prune(listed: &mut Vec<Listed>) {
    listed.retain(|listed| !(listed.is_gone() && listed.is_idle().unwrap_or(false)));
}

impl Pending for Streams {
    fn is_known_idle(&self) -> bool {
        let is_idle = |listed: &Listed| match listed.stream.upgrade() {
            Some(stream) => stream.is_known_idle(),
            None => listed.is_idle().unwrap_or(false),
        };
        self.listed.lock().iter().all(is_idle)
    }
}

impl Listed {
    /// Returns true if the stream was dropped and left its tombstone event.
    fn is_gone(&self) -> bool {
        self.tombstone.get().is_some()
    }

    /// Queries the work, without waiting.
    fn is_idle(&self) -> Result<bool> {
        if let Some(stream) = self.stream.upgrade() {
            return stream.is_idle();
        }
        match self.tombstone.get() {
            Some(Tombstone::Idle) => Ok(true),
            Some(Tombstone::Event(event)) => event.is_complete(),
            Some(Tombstone::Stream(stream)) => stream.is_idle(),
            // The stream is being dropped by another thread.
            None => Ok(false),
        }
    }
}
