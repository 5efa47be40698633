//! Imports of foreign memory.
#![allow(unsafe_code, reason = "takes addresses")]

use std::ptr::NonNull;

use dlpark::ffi::{DLDevice, DLDeviceType};
use dlpark::{DlpackFlags, Managed, ManagedTensorBase};
use um_backend::{Buffer, CudaBackend, DType, ErasedBuffer};

use crate::dtype::from_dlpack;
use crate::error::{Error, Result};
use crate::foreign_host::ForeignHost;
use crate::layout::compact;

/// A tensor of another library as a buffer, which keeps the tensor alive.
#[derive(Debug)]
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
/// Device type 2 with managed memory becomes a unified buffer, as device type 13 does.
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
    let found = tensor.validate()?;
    let (device, dtype, shape) = (found.device(), from_dlpack(found.dtype())?, compact(&found)?);
    let bytes = found.num_bytes();
    // SAFETY: the address lies in the memory that the caller vouches for.
    let start = unsafe { found.offset_bytes_ptr() }?.cast_mut();
    let start = NonNull::new(start).filter(|_| bytes > 0);
    let memory = Found {
        start: start.unwrap_or(NonNull::<u128>::dangling().cast()),
        bytes,
        read_only: tensor.flags().contains(DlpackFlags::READ_ONLY),
        owner: Box::new(tensor),
    };
    let read_only = memory.read_only;
    // SAFETY: guaranteed by the caller.
    let buffer = unsafe { memory.buffer(device, backend) }?;
    Ok(Imported {
        buffer: erased(buffer, dtype)?,
        shape,
        read_only,
    })
}

struct Found {
    start: NonNull<u8>,
    bytes: usize,
    read_only: bool,
    owner: Box<dyn Send>,
}

impl Found {
    /// # Safety
    /// As for [`import`].
    unsafe fn buffer(self, device: DLDevice, backend: &CudaBackend) -> Result<Box<dyn Buffer<u8>>> {
        if device.device_type == DLDeviceType::CPU {
            // SAFETY: guaranteed by the caller.
            let buffer = unsafe { ForeignHost::new(self.start, self.bytes, self.read_only, self.owner) };
            return Ok(Box::new(buffer));
        }
        check(device, backend)?;
        todo!()
    }
}

/// Checks that the tensor is on the device of the backend. Pinned memory has the ordinal 0 in some libraries.
fn check(found: DLDevice, backend: &CudaBackend) -> Result<()> {
    let expected = backend.device().ordinal();
    match found.device_type {
        DLDeviceType::CUDAHOST => Ok(()),
        DLDeviceType::CUDA | DLDeviceType::CUDAMANAGED => {
            match usize::try_from(found.device_id) == Ok(expected) {
                true => Ok(()),
                false => Err(Error::DeviceOrdinal { found: found.device_id, expected }),
            }
        }
        other => Err(Error::DeviceType { device_type: other.0 }),
    }
}

fn erased(bytes: Box<dyn Buffer<u8>>, dtype: DType) -> Result<ErasedBuffer> {
    Ok(ErasedBuffer::from_bytes(bytes, dtype)?)
}
