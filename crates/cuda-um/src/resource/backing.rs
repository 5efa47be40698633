//! Where a buffer's bytes come from and go back to.
#![allow(unsafe_code, reason = "frees memory")]

use crate::context::device::Device;
use crate::context::driver_state::{ManagedBytes, would_oversubscribe};
use crate::driver::{Api, MemoryInfo};
use crate::error::{Error, Result};
use crate::resource::pool::block::PoolBlock;
use crate::resource::pool::driver::DriverBlock;
use crate::resource::pool::kind::Kind;
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

/// Allocates; if there is not enough, waits until what was dropped in use by now is freed, and tries once more. To be called without locks.
pub(crate) fn with_retry<R>(device: &Device, mut allocate: impl FnMut() -> Result<R>) -> Result<R> {
    let reclaim = device.reclaim();
    reclaim.give_way();
    let released = reclaim.released();
    let outcome = allocate();
    if !matches!(outcome, Err(Error::OutOfMemory { .. })) {
        return outcome;
    }
    reclaim.flush();
    // What was released between the refusal and the wait counts, too.
    match reclaim.released() == released {
        true => outcome,
        false => allocate(),
    }
}

/// Managed memory. Unless `oversubscribe`, never more than is free, and never more in all than the device has.
pub(crate) fn managed(
    device: &Device,
    bytes: usize,
    oversubscribe: bool,
) -> Result<(NonNull<u8>, Backing)> {
    let (api, state, ordinal) = (device.api(), device.state(), device.ordinal());
    device.check_managed_memory()?;
    let reserve = |limit, info: MemoryInfo| {
        let refused = |live| would_oversubscribe(ordinal, bytes, live, info);
        let reserved = state
            .driver
            .reserve(ordinal, bytes, limit)
            .map_err(refused)?;
        if limit.is_some() && bytes > info.free_bytes {
            Err(refused(info.total_bytes - info.free_bytes))
        } else {
            Ok(reserved)
        }
    };
    let reserved = if oversubscribe {
        reserve(
            None,
            MemoryInfo {
                free_bytes: 0,
                total_bytes: 0,
            },
        )?
    } else {
        let info = device.memory_info()?;
        reserve(Some(info.total_bytes), info)?
    };
    Ok((
        api.malloc_managed(ordinal, bytes)?,
        Backing::Managed(reserved),
    ))
}

pub(crate) fn device(device: &Device, bytes: usize) -> Result<(NonNull<u8>, Backing)> {
    let memory = device.api().malloc(device.ordinal(), bytes)?;
    Ok((memory, Backing::Device))
}

pub(crate) fn pinned(device: &Device, bytes: usize) -> Result<(NonNull<u8>, Backing)> {
    let mapped = device.capabilities().map_host_memory;
    let memory = device.api().host_alloc(device.ordinal(), bytes, mapped)?;
    Ok((memory, Backing::Pinned))
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
            Self::Pool(block) => block.kind() == Kind::Managed,
        }
    }

    /// Whether the host may use the address. It may use that of no bytes.
    pub(crate) fn is_host_memory(&self) -> bool {
        match self {
            Self::Own(_, Backing::Managed(_) | Backing::Device | Backing::Ordered(_)) => false,
            Self::Own(_, Backing::Pinned | Backing::Owned(_) | Backing::Borrowed) => true,
            Self::Own(_, Backing::Nothing) => true,
            Self::Pool(block) => block.kind() == Kind::Pinned,
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
                Kind::Managed => "pooled managed",
                Kind::Pinned => "pooled pinned",
                Kind::Device => "pooled device",
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
