//! The source of a buffer's memory, and its release.
#![allow(unsafe_code, reason = "frees memory")]

use crate::context::device::Device;
use crate::context::driver_state::ManagedBytes;
use crate::driver::Api;
use crate::error::Result;
use crate::resource::kind::MemoryKind;
use crate::resource::pool::block::PoolBlock;
use crate::resource::pool::driver::DriverBlock;
use std::any::Any;
use std::ptr::NonNull;

/// The owner of a buffer's memory.
pub(crate) enum Source {
    /// The buffer owns the memory, which is on the device.
    Own(Device, Backing),
    /// A pool owns the memory.
    Pool(PoolBlock),
}

/// The kind of a buffer's own memory, and the data that its release needs.
pub(crate) enum Backing {
    Managed(ManagedBytes),
    Device,
    /// Device memory of a driver pool.
    Ordered(DriverBlock),
    Pinned,
    /// Registered memory that the buffer owns: a `Vec<T>`.
    Owned(Box<dyn Any + Send + Sync>),
    /// Registered memory of another owner.
    Borrowed,
    /// Nothing to free: the buffer has no elements, or was freed.
    Nothing,
}

impl Source {
    pub(crate) fn device(&self) -> &Device {
        match self {
            Self::Own(device, _) => device,
            Self::Pool(block) => block.device(),
        }
    }

    pub(crate) fn is_managed(&self) -> bool {
        match self {
            Self::Own(_, backing) => matches!(backing, Backing::Managed(_)),
            Self::Pool(block) => block.kind() == MemoryKind::Managed,
        }
    }

    /// Returns true if the host may use the address. It also does for no bytes.
    pub(crate) fn is_host_memory(&self) -> bool {
        match self {
            Self::Own(_, Backing::Managed(_) | Backing::Device | Backing::Ordered(_)) => false,
            Self::Own(_, Backing::Pinned | Backing::Owned(_) | Backing::Borrowed) => true,
            Self::Own(_, Backing::Nothing) => true,
            Self::Pool(block) => block.kind() == MemoryKind::Pinned,
        }
    }

    /// The name of the kind, for traces and errors.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Own(_, Backing::Managed(_)) => "managed",
            Self::Own(_, Backing::Device) => "device",
            Self::Own(_, Backing::Ordered(_)) => "pooled device",
            Self::Own(_, Backing::Pinned) => "pinned",
            Self::Own(_, Backing::Owned(_) | Backing::Borrowed) => "registered",
            Self::Own(_, Backing::Nothing) => "empty",
            Self::Pool(block) => match block.kind() {
                MemoryKind::Managed => "pooled managed",
                MemoryKind::Pinned => "pooled pinned",
                MemoryKind::Device => "pooled device",
            },
        }
    }
}

/// Memory that is leaked if this is dropped, unless `into_inner` took it out. The leak keeps no other object live.
pub(crate) struct Kept(Option<Backing>);

impl Kept {
    pub(crate) fn new(backing: Backing) -> Self {
        Self(Some(backing))
    }

    pub(crate) fn get(&self) -> &Backing {
        self.0.as_ref().unwrap_or(&Backing::Nothing)
    }

    pub(crate) fn into_inner(mut self) -> Backing {
        self.0.take().unwrap_or(Backing::Nothing)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        match self.0.take() {
            // The leaked bytes still occupy the device.
            Some(Backing::Managed(counted)) => counted.keep(),
            Some(Backing::Ordered(block)) => block.keep(),
            Some(Backing::Owned(owner)) => std::mem::forget(owner),
            _ => {}
        }
    }
}

impl Backing {
    /// Frees the memory and returns the object that the buffer owned. On an error the object is leaked, because a device may still use the
    /// memory.
    ///
    /// # Safety
    ///
    /// `pointer` is the memory that this backing was made with, and neither the host nor a device still uses it.
    pub(crate) unsafe fn release(
        self,
        api: &Api,
        ordinal: u32,
        pointer: NonNull<u8>,
    ) -> Result<Option<Box<dyn Any + Send + Sync>>> {
        match self {
            Self::Managed(counted) => {
                // SAFETY: guaranteed by the caller.
                let freed = unsafe { api.free(ordinal, pointer) };
                if freed.is_err() {
                    // The bytes still occupy the device.
                    counted.keep();
                }
                freed.map(|()| None)
            }
            // SAFETY: guaranteed by the caller.
            Self::Device => unsafe { api.free(ordinal, pointer) }.map(|()| None),
            Self::Ordered(block) => {
                // SAFETY: guaranteed by the caller.
                let freed = unsafe { api.free(ordinal, pointer) };
                if freed.is_err() {
                    // The block is still counted.
                    block.keep();
                }
                freed.map(|()| None)
            }
            // SAFETY: guaranteed by the caller.
            Self::Pinned => unsafe { api.free_host(ordinal, pointer) }.map(|()| None),
            Self::Owned(owner) => {
                // SAFETY: guaranteed by the caller.
                match unsafe { api.host_unregister(ordinal, pointer) } {
                    Ok(()) => Ok(Some(owner)),
                    Err(error) => {
                        std::mem::forget(owner);
                        Err(error)
                    }
                }
            }
            // SAFETY: guaranteed by the caller.
            Self::Borrowed => unsafe { api.host_unregister(ordinal, pointer) }.map(|()| None),
            Self::Nothing => Ok(None),
        }
    }
}
