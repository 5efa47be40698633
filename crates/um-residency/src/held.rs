//! The slots that a guard holds.

use std::marker::PhantomData;
use std::sync::Arc;

use um_backend::cuda_um::DeviceBuffer;

use crate::entries::Id;
use crate::entry::Residence;
use crate::state::{Shared, State};
use crate::thread::{one_guard_less, one_guard_more};

/// A buffer in the arena, which stays in its slots until this is dropped.
pub struct Held {
    shared: Arc<Shared>,
    id: Id,
    writes: bool,
    is_cancelled: bool,
    /// The only handle, if it writes.
    memory: Option<Arc<DeviceBuffer<u8>>>,
    /// Guards count for their thread.
    _stays: PhantomData<*const ()>,
}

impl Held {
    /// Takes a buffer that is in the arena and free for this access. The caller has the lock.
    pub(crate) fn take(
        shared: &Arc<Shared>,
        state: &mut State,
        (id, writes): (Id, bool),
    ) -> Option<Self> {
        let entry = state.entry(id);
        let Residence::Here(here) = &entry.memory else {
            return None;
        };
        let memory = Arc::clone(here);
        match writes {
            true => {
                entry.memory = Residence::Taken;
                entry.was = (entry.gone, entry.blank);
                (entry.gone, entry.blank) = (None, false);
            }
            false => entry.readers += 1,
        }
        state.held += 1;
        one_guard_more();
        Some(Self {
            shared: Arc::clone(shared),
            id,
            writes,
            is_cancelled: false,
            memory: Some(memory),
            _stays: PhantomData,
        })
    }

    /// Drops the guards of a set that failed: nothing was written, and the contents are as before.
    pub(crate) fn cancel(held: impl IntoIterator<Item = Self>) {
        for mut held in held {
            held.is_cancelled = true;
            drop(held);
        }
    }

    pub(crate) fn memory(&self) -> &DeviceBuffer<u8> {
        self.memory.as_deref().expect("until the drop")
    }

    pub(crate) fn memory_mut(&mut self) -> &mut DeviceBuffer<u8> {
        let memory = self.memory.as_mut().and_then(Arc::get_mut);
        memory.expect("a guard that writes has the only handle")
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let Some(memory) = self.memory.take() else {
            return;
        };
        if self.shared.is_inherited() {
            return std::mem::forget(memory);
        }
        let mut state = self.shared.state.lock();
        let entry = state.entry(self.id);
        match self.writes {
            true => {
                entry.memory = Residence::Here(memory);
                match self.is_cancelled {
                    false => entry.dirty = true,
                    true => (entry.gone, entry.blank) = entry.was,
                }
                if entry.blank {
                    // The slots have old bytes of another buffer.
                    drop(state.left(self.id));
                }
            }
            false => {
                drop(memory);
                entry.readers -= 1;
            }
        }
        state.held -= 1;
        one_guard_less();
        drop(state);
        self.shared.released.notify_all();
    }
}
