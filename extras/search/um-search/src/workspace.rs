//! Device memory that the kernels of one launcher use together. It is kept between launches, because an allocation takes longer
//! than most kernels run.

use crate::error::Result;
use cuda_um::{Device, DeviceBuffer, DeviceCopy, fork};
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The lock, also after a panic of another thread: each value is whole between two statements.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Something that one launch after the other uses. No lock is held while a launch uses it: a launch at the same time makes its own. The lock
/// is never waited for, because in a child made by `fork` another thread of the parent may hold it for ever.
#[derive(Debug)]
pub(crate) struct Spare<T>(Mutex<Option<T>>);

impl<T> Spare<T> {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(None))
    }

    pub(crate) fn take(&self) -> Option<T> {
        self.0.try_lock().ok()?.take()
    }

    /// Keeps it for the next launch, in place of that of a launch at the same time.
    pub(crate) fn put(&self, spare: T) {
        let other = match self.0.try_lock() {
            Ok(mut kept) => kept.replace(spare),
            Err(_) => Some(spare),
        };
        // Without the lock, because its drop sends events.
        drop(other);
    }
}

/// Grows when necessary. Launches on several streams that share it run one after the other, as with any buffer.
///
/// No lock is held while a launch uses the memory: a `tracing` subscriber may use the same launcher.
#[derive(Debug)]
pub(crate) struct Workspace<T: DeviceCopy> {
    device: Device,
    /// None before the first use, and while a launch uses it.
    memory: Mutex<Option<Memory<T>>>,
}

type Memory<T> = DeviceBuffer<MaybeUninit<T>>;

/// The memory, while a launch is enqueued. It is returned when this is dropped.
pub(crate) struct Held<'a, T: DeviceCopy> {
    home: &'a Workspace<T>,
    /// None only during `drop`.
    memory: Option<Memory<T>>,
}

impl<T: DeviceCopy> Workspace<T> {
    pub(crate) fn new(device: &Device) -> Self {
        Self {
            device: device.clone(),
            memory: Mutex::new(None),
        }
    }

    /// Memory for at least `len` elements, with old contents. If another launch is being enqueued at the same time, it gets
    /// different memory.
    pub(crate) fn hold(&self, len: usize) -> Result<Held<'_, T>> {
        fork::check("a launch")?;
        let kept = lock(&self.memory).take();
        // Memory that is too small is freed first: there may be no memory for both.
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

impl<T: DeviceCopy> Deref for Held<'_, T> {
    type Target = Memory<T>;

    fn deref(&self) -> &Memory<T> {
        self.memory.as_ref().expect("present until the drop")
    }
}

impl<T: DeviceCopy> DerefMut for Held<'_, T> {
    fn deref_mut(&mut self) -> &mut Memory<T> {
        self.memory.as_mut().expect("present until the drop")
    }
}

impl<T: DeviceCopy> Drop for Held<'_, T> {
    fn drop(&mut self) {
        let mut smaller = self.memory.take();
        let mut kept = lock(&self.home.memory);
        if kept.as_ref().map(|kept| kept.len()) < smaller.as_ref().map(|mine| mine.len()) {
            std::mem::swap(&mut *kept, &mut smaller);
        }
        drop(kept);
        // Without the lock, because its drop sends events.
        drop(smaller);
    }
}
