//! Where a buffer's bytes come from and go back to.
#![allow(
    unsafe_code,
    reason = "frees memory, and asks for its address on the device"
)]

use crate::call::Api;
use crate::device::{Device, MemoryInfo};
use crate::driver_state::{ManagedBytes, would_oversubscribe};
use crate::error::{Error, Result};
use crate::memory::in_flight::InFlight;
use crate::memory::raw::RawBuffer;
use crate::pool::block::PoolBlock;
use std::any::Any;
use std::ptr::NonNull;

/// What kind of memory it is, and whom it belongs to.
pub(crate) enum Backing {
    Managed(ManagedBytes),
    /// Managed memory that a pool lends.
    Pooled(PoolBlock),
    Device,
    Pinned,
    /// Registered memory that the buffer owns: a `Vec<T>`.
    Owned(Box<dyn Any + Send + Sync>),
    /// Registered memory of somebody else.
    Borrowed,
    /// Nothing to free: no elements, or given back already.
    Nothing,
}

/// Allocates; if there is not enough, frees what was dropped in use, and tries once more.
fn with_retry<R>(api: &Api, mut allocate: impl FnMut() -> Result<R>) -> Result<R> {
    match allocate() {
        Err(Error::OutOfMemory { .. }) if api.reclaim.is_pending() => {
            api.reclaim.flush();
            allocate()
        }
        result => result,
    }
}

/// Managed memory. Unless `oversubscribe`, never more than is free, and never more in all than the device has.
pub(crate) fn managed(
    device: &Device,
    bytes: usize,
    oversubscribe: bool,
) -> Result<(NonNull<u8>, Backing)> {
    let (api, state, ordinal) = (device.api(), device.state(), device.ordinal());
    if !state.capabilities.managed_memory {
        return Err(Error::NotSupported {
            what: "managed memory".to_owned(),
            needs: "a device with the attribute managedMemory".to_owned(),
            have: format!("device {ordinal} ({}), which has it not", state.name),
        });
    }
    with_retry(api, || {
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
    })
}

pub(crate) fn device(device: &Device, bytes: usize) -> Result<(NonNull<u8>, Backing)> {
    let api = device.api();
    with_retry(api, || {
        Ok((api.malloc(device.ordinal(), bytes)?, Backing::Device))
    })
}

fn pinned(device: &Device, bytes: usize) -> Result<(NonNull<u8>, Backing)> {
    let api = device.api();
    let mapped = device.capabilities().map_host_memory;
    with_retry(api, || {
        Ok((
            api.host_alloc(device.ordinal(), bytes, mapped)?,
            Backing::Pinned,
        ))
    })
}

/// Pinned memory with its address for kernels, where the device can map it.
pub(crate) fn mapped(device: &Device, bytes: usize) -> Result<RawBuffer> {
    let memory = pinned(device, bytes)?;
    let pointer = memory.0;
    // Owns the memory from here on, whatever the next call says.
    let unmapped = RawBuffer::new(device, memory, None, bytes);
    if !device.capabilities().map_host_memory {
        return Ok(unmapped);
    }
    // SAFETY: it is mapped, for the device can.
    let device_pointer = unsafe { device.api().host_device_pointer(device.ordinal(), pointer) }?;
    Ok(unmapped.mapped_at(device_pointer))
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
            Self::Pooled(block) => {
                block.give_back(pointer, InFlight::default());
                Ok(None)
            }
            // SAFETY: the caller's promise.
            Self::Device => unsafe { api.free(ordinal, pointer) }.map(|()| None),
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
