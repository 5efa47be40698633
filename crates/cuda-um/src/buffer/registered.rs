//! Host memory of the caller that is registered with CUDA.
#![allow(unsafe_code, reason = "passes memory of the caller to CUDA")]

use crate::DeviceCopy;
use crate::buffer::kind::Registered;
use crate::buffer::memory::Memory;
use crate::context::device::Device;
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::resource::existing::{Existing, register};
use crate::resource::owner::Held;
use crate::sync::assert_no_lock_held;
use std::ptr::NonNull;

/// Host memory of the caller for copies and kernels, page-locked
/// ([`cudaHostRegister`](https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY.html)) and, if the device supports it, mapped
/// for kernels.
///
/// The buffer takes ownership of a vector, and [`into_vec`](RegisteredBuffer::into_vec) returns it. A borrowed slice is registered for the time of
/// a closure, because a value that only borrowed it could be forgotten (`mem::forget`), and the device would write to it later:
///
/// ```
/// # let device = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env().unwrap().table())?.device(0)?;
/// use cuda_um::{DeviceBuffer, RegisteredBuffer};
///
/// let stream = device.create_stream()?;
/// let on_device = DeviceBuffer::from_slice(&device, &[1u8; 4096])?;
///
/// let mut owned = RegisteredBuffer::from_vec(&device, vec![0u8; 4096])?;
/// stream.copy(&on_device, &mut owned)?;
/// let vector: Vec<u8> = owned.into_vec()?; // waits for the copy
/// assert_eq!(vector[4095], 1);
///
/// let mut array = vec![0u8; 4096];
/// RegisteredBuffer::scope(&device, &mut array, |registered| stream.copy(&on_device, registered))??;
/// assert_eq!(array[0], 1);
/// # Ok::<(), cuda_um::Error>(())
/// ```
///
/// A device that reads memory of the host where it is ([`UnifiedMemory::FullHardware`](crate::resource::UnifiedMemory), and integrated devices
/// with pageable memory access) needs no registration: the memory is of [`MemoryKind::System`](crate::MemoryKind::System).
#[doc(alias = "cudaHostRegister")]
pub type RegisteredBuffer<'m, T> = Memory<T, Registered<'m>>;

impl<T: DeviceCopy> RegisteredBuffer<'static, T> {
    /// Registers the memory of a vector (its length, not its spare capacity).
    ///
    /// # Errors
    ///
    /// [`Error::NotSupported`] if the device cannot register memory, and the errors of `cudaHostRegister`. The vector is lost after an
    /// error.
    #[track_caller]
    pub fn from_vec(device: &Device, mut elements: Vec<T>) -> Result<Self> {
        let memory = NonNull::from(&mut elements[..]);
        // SAFETY: the vector's heap memory does not move while the buffer owns the vector.
        unsafe { Self::register(device, memory, Some(Box::new(elements))) }
    }
}

impl<T: DeviceCopy> RegisteredBuffer<'_, T> {
    /// Registers a slice for the time of `body`. When this returns, all work on the buffer is complete and the slice is unregistered.
    ///
    /// # Errors
    ///
    /// [`Error::NotSupported`] if the device cannot register memory, the errors of `cudaHostRegister`, and the errors of the wait and of
    /// `cudaHostUnregister` after `body`, whose result is then lost.
    #[track_caller]
    pub fn scope<R>(
        device: &Device,
        memory: &mut [T],
        body: impl for<'s> FnOnce(&mut RegisteredBuffer<'s, T>) -> R,
    ) -> Result<R> {
        // SAFETY: the slice is borrowed until this function returns, and the buffer is closed by then; if `body` panics, the buffer is
        // dropped, which waits for this kind. `body` cannot keep the buffer: it gets a reference, and no other value of its type.
        let mut buffer =
            unsafe { RegisteredBuffer::register(device, NonNull::from(memory), None) }?;
        assert_no_lock_held("the closure of a scope");
        let result = body(&mut buffer);
        buffer.raw.close()?;
        Ok(result)
    }

    /// # Safety
    ///
    /// The memory is valid, and nothing else uses it, until the buffer is closed or dropped.
    #[track_caller]
    unsafe fn register(device: &Device, memory: NonNull<[T]>, held: Held) -> Result<Self> {
        Self::made(device, memory.len(), |bytes| {
            let pointer = memory.cast();
            match device.capabilities().reads_host_memory_in_place() {
                true => {
                    let memory = (pointer, bytes);
                    let adopted = Existing::system_memory(device, "adopted", memory, held, None);
                    Ok(adopted)
                }
                // SAFETY: guaranteed by the caller.
                false => unsafe { register(device, (pointer, bytes), held) },
            }
        })
    }
}
