//! Where a buffer's bytes come from and go back to.
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

/// Whose memory a buffer has.
pub(crate) enum Source {
    /// Its own, on the device.
    Own(Device, Backing),
    /// A pool's, which lends it.
    Pool(PoolBlock),
}

/// What kind of memory of its own a buffer has, and whom it belongs to.
pub(crate) enum Backing {
    Managed(ManagedBytes),
    Device,
    /// Device memory of a pool of the driver's.
    Ordered(DriverBlock),
    Pinned,
    /// Registered memory that the buffer owns: a `Vec<T>`.
    Owned(Box<dyn Any + Send + Sync>),
    /// Registered memory of somebody else.
    Borrowed,
    /// Nothing to free: no elements, or given back already.
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

    /// Whether the host may use the address. It may use that of no bytes.
    pub(crate) fn is_host_memory(&self) -> bool {
        match self {
            Self::Own(_, Backing::Managed(_) | Backing::Device | Backing::Ordered(_)) => false,
            Self::Own(_, Backing::Pinned | Backing::Owned(_) | Backing::Borrowed) => true,
            Self::Own(_, Backing::Nothing) => true,
            Self::Pool(block) => block.kind() == MemoryKind::Pinned,
        }
    }

    /// For traces and errors.
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
                MemoryKind::Device | MemoryKind::Registered => "pooled device",
            },
        }
    }
}

/// Memory that is never freed unless it is taken out: dropped, it is leaked, and holds on to nothing but itself.
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
            // They still take their place.
            Some(Backing::Managed(counted)) => counted.keep(),
            Some(Backing::Ordered(block)) => block.keep(),
            Some(Backing::Owned(owner)) => std::mem::forget(owner),
            _ => {}
        }
    }
}

impl Backing {
    /// Gives the memory back. What the buffer owned comes out; on an error it is leaked, for a device may still use it.
    ///
    /// # Safety
    ///
    /// `pointer` is the memory that this backing was made with, and nobody uses it any more, no device either.
    pub(crate) unsafe fn release(
        self,
        api: &Api,
        ordinal: u32,
        pointer: NonNull<u8>,
    ) -> Result<Option<Box<dyn Any + Send + Sync>>> {
        match self {
            Self::Managed(counted) => {
                // SAFETY: the caller's promise.
                let freed = unsafe { api.free(ordinal, pointer) };
                if freed.is_err() {
                    // It still takes its place on the device.
                    counted.keep();
                }
                freed.map(|()| None)
            }
            // SAFETY: the caller's promise.
            Self::Device => unsafe { api.free(ordinal, pointer) }.map(|()| None),
            Self::Ordered(block) => {
                // SAFETY: the caller's promise.
                let freed = unsafe { api.free(ordinal, pointer) };
                if freed.is_err() {
                    // It still counts.
                    block.keep();
                }
                freed.map(|()| None)
            }
            // SAFETY: the caller's promise.
            Self::Pinned => unsafe { api.free_host(ordinal, pointer) }.map(|()| None),
            Self::Owned(owner) => {
                // SAFETY: the caller's promise.
                match unsafe { api.host_unregister(ordinal, pointer) } {
                    Ok(()) => Ok(Some(owner)),
                    Err(error) => {
                        std::mem::forget(owner);
                        Err(error)
                    }
                }
            }
            // SAFETY: the caller's promise.
            Self::Borrowed => unsafe { api.host_unregister(ordinal, pointer) }.map(|()| None),
            Self::Nothing => Ok(None),
        }
    }
}
