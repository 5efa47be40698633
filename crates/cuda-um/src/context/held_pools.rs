//! The references that hold the default pools of a runtime's devices.
//!
//! Handles of the caller (a runtime, its devices and streams) hold the pools. Memory does not: a pool has memory, so its slabs would hold the
//! pool for ever. Memory knows the pools, so a buffer's device allocates from them as long as a handle of the caller is there.

use crate::context::slot::Slot;
use crate::sync::Mutex;
use std::sync::{Arc, Weak};

/// A slot for each device, in which the resources keep its default pools.
#[derive(Default)]
pub(crate) struct PoolSlots(Mutex<Vec<Arc<Slot>>>);

impl PoolSlots {
    pub(crate) fn of(&self, ordinal: u32) -> Arc<Slot> {
        let mut slots = self.0.lock();
        let index = ordinal as usize;
        if slots.len() <= index {
            slots.resize_with(index + 1, Arc::default);
        }
        Arc::clone(&slots[index])
    }
}

/// A reference that holds its target, or only knows it.
pub(crate) enum Ref<T> {
    Holds(Arc<T>),
    Knows(Weak<T>),
}

impl<T> Ref<T> {
    /// A reference to the same target that only knows it.
    pub(crate) fn known(&self) -> Self {
        Self::Knows(match self {
            Self::Holds(target) => Arc::downgrade(target),
            Self::Knows(target) => Weak::clone(target),
        })
    }
}

impl<T> Clone for Ref<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Holds(target) => Self::Holds(Arc::clone(target)),
            Self::Knows(target) => Self::Knows(Weak::clone(target)),
        }
    }
}
