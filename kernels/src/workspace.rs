//! Device memory that the kernels of one launcher hand each other, kept from launch to launch: an allocation takes longer than
//! most of them run.

use crate::error::Result;
use cuda_um::{Device, DeviceBuffer, Element};
use parking_lot::{MappedMutexGuard, Mutex, MutexGuard};
use std::mem::MaybeUninit;

/// Grows as needed. Launches on several streams that share it run one after the other, as with any buffer.
#[derive(Debug)]
pub(crate) struct Workspace<T: Element> {
    device: Device,
    memory: Mutex<Option<DeviceBuffer<MaybeUninit<T>>>>,
}

/// The memory, for the time of enqueueing.
pub(crate) type Held<'a, T> = MappedMutexGuard<'a, DeviceBuffer<MaybeUninit<T>>>;

impl<T: Element> Workspace<T> {
    pub(crate) fn new(device: &Device) -> Self {
        Self {
            device: device.clone(),
            memory: Mutex::new(None),
        }
    }

    /// Memory for at least `len` elements; what they hold is left from before.
    pub(crate) fn hold(&self, len: usize) -> Result<Held<'_, T>> {
        let mut memory = self.memory.lock();
        if memory.as_ref().is_none_or(|memory| memory.len() < len) {
            // First the old one goes: both together may be more than there is.
            *memory = None;
            *memory = Some(DeviceBuffer::uninit(&self.device, len)?);
        }
        Ok(MutexGuard::map(memory, |memory| {
            memory.as_mut().expect("was made above")
        }))
    }
}
