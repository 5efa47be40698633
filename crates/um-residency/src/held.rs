//! The slots that a guard holds.

use std::marker::PhantomData;
use std::sync::Arc;
use std::thread;

use um_backend::cuda_um::DeviceBuffer;

use crate::entry::Residence;
use crate::state::{Shared, State};

/// A buffer in the arena, which stays in its slots until this is dropped.
pub struct Held {
    shared: Arc<Shared>,
    id: usize,
    writes: bool,
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
        (id, writes): (usize, bool),
    ) -> Option<Self> {
        let entry = state.entry(id);
        let Residence::Here(here) = &entry.memory else {
            return None;
        };
        let memory = Arc::clone(here);
        match writes {
            true => {
                entry.memory = Residence::Taken;
                (entry.gone, entry.blank) = (None, false);
            }
            false => entry.readers += 1,
        }
        *state.held.entry(thread::current().id()).or_default() += 1;
        Some(Self {
            shared: Arc::clone(shared),
            id,
            writes,
            memory: Some(memory),
            _stays: PhantomData,
        })
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
        if self.shared.cuda.as_cuda_um().runtime().is_inherited() {
            return std::mem::forget(memory);
        }
        let mut state = self.shared.state.lock();
        let entry = state.entry(self.id);
        match self.writes {
            true => {
                entry.memory = Residence::Here(memory);
                entry.dirty = true;
            }
            false => {
                drop(memory);
                entry.readers -= 1;
            }
        }
        let thread = thread::current().id();
        if let Some(held) = state.held.get_mut(&thread) {
            *held -= 1;
            if *held == 0 {
                state.held.remove(&thread);
            }
        }
        drop(state);
        self.shared.released.notify_all();
    }
}
