//! Imports of foreign memory.
#![allow(unsafe_code, reason = "takes addresses")]

use std::any::Any;
use std::ptr::NonNull;
use std::sync::Arc;

use dlpark::ffi::{DLDevice, DLDeviceType};
use dlpark::{DlpackFlags, Managed, ManagedTensorBase};
use um_backend::cuda_um::{
    Memory,
    buffer::kind::{self, Owned},
};
use um_backend::{Buffer, CudaBackend, ErasedBuffer};

use crate::dtype::from_dlpack;
use crate::error::{Error, Result};
use crate::foreign_host::ForeignHost;
use crate::layout::compact;
use crate::returns;

/// A tensor of another library as a buffer, which keeps the tensor alive.
#[derive(Debug)]
#[non_exhaustive]
pub struct Imported {
    /// The memory. Device memory, unified memory and pinned memory are such buffers; memory of the CPU is a buffer of the host.
    pub buffer: ErasedBuffer,
    /// The extents, in elements.
    pub shape: Vec<usize>,
    /// Whether a write is an error.
    pub read_only: bool,
}

/// Imports a tensor without a copy, from the CPU or from the device of the backend. The tensor's deleter runs when the buffer is dropped and no
/// work of this library uses the memory, on any thread. After an error it has run.
///
/// Device type 2 with managed memory becomes a unified buffer, as device type 13 does, and with pinned memory that the device maps a pinned buffer.
///
/// # Safety
/// - The tensor describes memory that is valid and initialised until its deleter runs.
/// - Other code does not write it while this library reads it, nor access it while this library writes it. The exporting library's earlier
///   work is done, or ordered before the device's work that follows.
///
/// # Errors
/// [`Error::DType`], [`Error::Strides`], [`Error::DeviceType`], [`Error::DeviceOrdinal`] and [`Error::Invalid`], with the found value; and if CUDA knows
/// the address as other memory than the tensor says.
pub unsafe fn import<M: ManagedTensorBase + 'static>(
    tensor: Managed<M>,
    backend: &CudaBackend,
) -> Result<Imported> {
    // SAFETY: guaranteed by the caller.
    unsafe { import_owned(tensor, backend, |tensor| Arc::new(tensor)) }
}

/// Does the same as [`import`], with an owner that is made of the tensor. The owner is dropped in the place of the tensor, so it can leak it: a
/// deleter that needs an interpreter must not run after the interpreter's end.
///
/// # Safety
/// As for [`import`]; the owner keeps the tensor as long as it lives.
///
/// # Errors
/// As for [`import`].
pub unsafe fn import_owned<M: ManagedTensorBase + 'static>(
    tensor: Managed<M>,
    backend: &CudaBackend,
    own: impl FnOnce(Managed<M>) -> Arc<dyn Any + Send + Sync>,
) -> Result<Imported> {
    returns::start()?;
    let found = tensor.validate()?;
    check_type(found.device())?;
    let (device, dtype, shape) = (
        found.device(),
        from_dlpack(found.dtype())?,
        compact(&found)?,
    );
    let bytes = found.num_bytes();
    // SAFETY: the address lies in the memory that the caller vouches for.
    let start = unsafe { found.offset_bytes_ptr() }?.cast_mut();
    let start = NonNull::new(start).filter(|_| bytes > 0);
    let memory = Found {
        start: start.unwrap_or(NonNull::<u128>::dangling().cast()),
        bytes,
        read_only: tensor.flags().contains(DlpackFlags::READ_ONLY),
        owner: own(tensor),
    };
    let read_only = memory.read_only;
    // SAFETY: guaranteed by the caller.
    let buffer = unsafe { memory.buffer(device, backend) }?;
    Ok(Imported {
        buffer: ErasedBuffer::from_bytes(buffer, dtype)?,
        shape,
        read_only,
    })
}

/// The memory of a tensor.
struct Found {
    start: NonNull<u8>,
    bytes: usize,
    read_only: bool,
    /// Shared, so that it survives a refused import.
    owner: Arc<dyn Any + Send + Sync>,
}

impl Found {
    /// # Safety
    /// As for [`import`].
    unsafe fn buffer(self, device: DLDevice, backend: &CudaBackend) -> Result<Box<dyn Buffer<u8>>> {
        let of = match device.device_type {
            DLDeviceType::CPU => return Ok(Box::new(self.of_host())),
            DLDeviceType::CUDAHOST => Self::import::<kind::Pinned>,
            _ => {
                check_ordinal(device, backend)?;
                match device.device_type {
                    DLDeviceType::CUDAMANAGED => Self::import::<kind::Unified>,
                    _ => Self::import::<kind::Device>,
                }
            }
        };
        let refused = match of(&self, backend) {
            Err(refused @ um_backend::cuda_um::Error::Foreign { .. }) => refused,
            result => return Ok(result?),
        };
        // Libraries that do not know device type 13 say 2 for managed memory, and this library for mapped memory.
        match device.device_type == DLDeviceType::CUDA {
            true => Ok(self
                .import::<kind::Unified>(backend)
                .or_else(|_| self.import::<kind::Pinned>(backend))
                .map_err(|_| refused)?),
            false => Err(refused.into()),
        }
    }

    fn import<K: Owned>(&self, backend: &CudaBackend) -> um_backend::Result<Box<dyn Buffer<u8>>> {
        let (device, owner) = (backend.device(), Arc::clone(&self.owner));
        // SAFETY: guaranteed by the caller of `buffer`.
        let memory =
            unsafe { Memory::<_, K>::from_foreign(device, self.start, self.bytes, owner) }?;
        Ok(Box::new(match self.read_only {
            true => memory.read_only(),
            false => memory,
        }))
    }

    fn of_host(self) -> ForeignHost {
        // SAFETY: guaranteed by the caller of `buffer`.
        unsafe { ForeignHost::new(self.start, self.bytes, self.read_only, self.owner) }
    }
}

/// Checks that the tensor is on the device of the backend.
fn check_ordinal(found: DLDevice, backend: &CudaBackend) -> Result<()> {
    let expected = backend.device().ordinal() as usize;
    match usize::try_from(found.device_id) == Ok(expected) {
        true => Ok(()),
        false => Err(Error::DeviceOrdinal {
            found: found.device_id,
            expected,
        }),
    }
}

fn check_type(found: DLDevice) -> Result<()> {
    match found.device_type {
        DLDeviceType::CPU
        | DLDeviceType::CUDA
        | DLDeviceType::CUDAHOST
        | DLDeviceType::CUDAMANAGED => Ok(()),
        other => Err(Error::DeviceType {
            device_type: other.0,
        }),
    }
}
