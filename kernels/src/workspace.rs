//! Device memory that the kernels of one launcher hand each other, kept from launch to launch: an allocation takes longer than
//! most of them run.

use crate::error::Result;
use cuda_um::{Device, DeviceBuffer, Element};
use parking_lot::Mutex;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};

/// Grows as needed. Launches on several streams that share it run one after the other, as with any buffer.
///
/// No lock is held while a launch has the memory: a subscriber of `tracing` may use the same launcher.
#[derive(Debug)]
pub(crate) struct Workspace<T: Element> {
    device: Device,
    /// None if it was never needed, or a launch has it.
    memory: Mutex<Option<Memory<T>>>,
}

type Memory<T> = DeviceBuffer<MaybeUninit<T>>;

/// The memory, for the time of enqueueing. It goes back when this is dropped.
pub(crate) struct Held<'a, T: Element> {
    home: &'a Workspace<T>,
    /// None only in `drop`.
    memory: Option<Memory<T>>,
}

impl<T: Element> Workspace<T> {
    pub(crate) fn new(device: &Device) -> Self {
        Self {
            device: device.clone(),
            memory: Mutex::new(None),
        }
    }

    /// Memory for at least `len` elements; what they hold is left from before. If another launch is being enqueued, it is other memory.
    pub(crate) fn hold(&self, len: usize) -> Result<Held<'_, T>> {
        let kept = self.memory.lock().take();
        // What is too small goes first: both together may be more than there is.
        let memory = match kept.filter(|memory| memory.len() >= len) {
            Some(memory) => memory,
            None => DeviceBuffer::uninit(&self.device, len)?,
        };
        Ok(Held {
            home: self,
            memory: Some(memory),
        })
    }
}

impl<T: Element> Deref for Held<'_, T> {
    type Target = Memory<T>;

    fn deref(&self) -> &Memory<T> {
        self.memory.as_ref().expect("is there until the drop")
    }
}

impl<T: Element> DerefMut for Held<'_, T> {
    fn deref_mut(&mut self) -> &mut Memory<T> {
        self.memory.as_mut().expect("is there until the drop")
    }
}

impl<T: Element> Drop for Held<'_, T> {
    fn drop(&mut self) {
        let mut smaller = self.memory.take();
        let mut kept = self.home.memory.lock();
        if kept.as_ref().map(|kept| kept.len()) < smaller.as_ref().map(|mine| mine.len()) {
            std::mem::swap(&mut *kept, &mut smaller);
        }
        drop(kept);
        // Without the lock: its drop sends events.
        drop(smaller);
    }
}
