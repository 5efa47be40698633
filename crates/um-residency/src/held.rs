//! What a guard holds: the slots of a buffer.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use um_backend::cuda_um::{View, ViewMut, fork};

use crate::access::Access;
use crate::entries::Id;
use crate::entry::{Memory, Residence};
use crate::state::{Shared, State};
use crate::thread::{one_guard_less, one_guard_more};

/// A buffer in the arena, which stays in its slots until this is dropped.
pub struct Held {
    shared: Arc<Shared>,
    id: Id,
    hold: Hold,
    /// `None` when it is dropped.
    memory: Option<Memory>,
    /// Guards count for their thread.
    _stays: PhantomData<*const ()>,
}

/// What a guard does with the memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hold {
    Read,
    Write,
    /// Writes slots that do not have the contents.
    WriteBlank,
    /// Wrote nothing, because its set failed. The contents are as before.
    Cancelled,
    CancelledBlank,
}

impl Held {
    /// Takes a buffer that is in the arena and free for this access. The caller has the lock.
    pub(crate) fn take(
        shared: &Arc<Shared>,
        state: &mut State,
        id: Id,
        access: Access,
    ) -> Option<Self> {
        let entry = state.entry(id);
        let (memory, written) = match &entry.memory {
            Residence::Here(memory) => (memory.clone(), Hold::Write),
            Residence::Blank(memory) => (memory.clone(), Hold::WriteBlank),
            Residence::Away | Residence::Taken => return None,
        };
        let hold = match access {
            Access::Read => {
                entry.readers += 1;
                Hold::Read
            }
            Access::Write | Access::ReadWrite => {
                entry.memory = Residence::Taken;
                written
            }
        };
        state.held += 1;
        one_guard_more();
        Some(Self {
            shared: Arc::clone(shared),
            id,
            hold,
            memory: Some(memory),
            _stays: PhantomData,
        })
    }

    /// Drops the guards of a set that failed: nothing was written, and the contents are as before.
    pub(crate) fn cancel(held: impl IntoIterator<Item = Self>) {
        for mut held in held {
            held.hold = match held.hold {
                Hold::Write => Hold::Cancelled,
                Hold::WriteBlank => Hold::CancelledBlank,
                other => other,
            };
            drop(held);
        }
    }

    fn memory(&self) -> &Memory {
        self.memory.as_ref().expect("until the drop")
    }

    pub(crate) fn view(&self) -> View<'_, u8> {
        self.memory().as_view()
    }

    pub(crate) fn view_mut(&mut self) -> ViewMut<'_, u8> {
        let memory = self.memory.as_mut().expect("until the drop");
        let memory = Arc::get_mut(memory).expect("a guard that writes has the only handle");
        memory.as_view_mut()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let Some(memory) = self.memory.take() else {
            return;
        };
        if fork::is_inherited() {
            return std::mem::forget(memory);
        }
        let mut state = self.shared.state.lock();
        let entry = state.entry(self.id);
        match self.hold {
            Hold::Read => {
                drop(memory);
                entry.readers -= 1;
            }
            Hold::Write | Hold::WriteBlank => {
                (entry.memory, entry.is_dirty) = (Residence::Here(memory), true);
            }
            Hold::Cancelled => entry.memory = Residence::Here(memory),
            Hold::CancelledBlank => {
                entry.memory = Residence::Blank(memory);
                // The slots have old bytes of another buffer.
                drop(state.left(self.id));
            }
        }
        state.held -= 1;
        one_guard_less();
        drop(state);
        self.shared.released.notify_all();
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.memory {
            Some(memory) => memory.fmt(f),
            None => f.write_str("dropped"),
        }
    }
}
