//! Host memory of the caller, registered with CUDA.
#![allow(unsafe_code, reason = "gives CUDA memory of the caller")]

use crate::Element;
use crate::context::device::Device;
use crate::error::{Error, Result};
use crate::label::Label;
use crate::resource::allocation::RawBuffer;
use crate::resource::backing::Backing;
use crate::sync::assert_no_lock_held;
use crate::{element, range};
use cuda_um_sys::cudaError;
use std::marker::PhantomData;
use std::panic::Location;
use std::ptr::NonNull;

/// Memory that the caller owns, page-locked (`cudaHostRegister`) and, where the device can, mapped for kernels.
///
/// A vector is moved in and comes out again; a slice that is only borrowed is registered for the time of a closure:
///
/// ```
/// # let device = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env().unwrap().table())?.device(0)?;
/// use cuda_um::{DeviceBuffer, RegisteredBuffer};
///
/// let stream = device.stream()?;
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
/// Why a closure: a value that merely borrowed the slice could be forgotten (`mem::forget`), and the device would write to memory
/// that is somebody else's by then.
#[doc(alias = "cudaHostRegister")]
pub struct RegisteredBuffer<'m, T> {
    pub(crate) raw: RawBuffer,
    /// Invariant, so that buffers of two scopes cannot be swapped.
    _memory: PhantomData<&'m mut &'m mut [T]>,
}

buffer_methods!(['m] RegisteredBuffer);
host_methods!(['m] RegisteredBuffer);

impl<T: Element> RegisteredBuffer<'static, T> {
    /// Registers a vector's memory (its length, not its spare capacity).
    ///
    /// # Errors
    ///
    /// [`Error::NotSupported`] where the device cannot register memory, and what `cudaHostRegister` reports. The vector is then
    /// lost; copy it before if that matters.
    #[track_caller]
    pub fn from_vec(device: &Device, mut elements: Vec<T>) -> Result<Self> {
        let memory: *mut [T] = &raw mut elements[..];
        // SAFETY: the vector's heap memory stays where it is while the buffer owns the vector.
        let raw = unsafe { register(device, memory, Backing::Owned(Box::new(elements))) }?;
        Ok(Self {
            raw,
            _memory: PhantomData,
        })
    }

    /// Waits for the buffer's own work, unregisters the memory and gives the vector back.
    ///
    /// # Errors
    ///
    /// What the CUDA functions report: a failure of that work as well. The vector is then leaked, for a device may still use it.
    ///
    /// # Panics
    ///
    /// Never: the buffer owns a vector of this type.
    pub fn into_vec(self) -> Result<Vec<T>> {
        match self.raw.close()? {
            Some(owner) => Ok(*owner
                .downcast()
                .expect("the owner is the vector of from_vec")),
            None => Ok(Vec::new()),
        }
    }
}

impl<T: Element> RegisteredBuffer<'_, T> {
    /// Registers a slice for the time of `body`. When this returns, all work on the buffer is done and it is unregistered.
    ///
    /// # Errors
    ///
    /// [`Error::NotSupported`] where the device cannot register memory, what `cudaHostRegister` reports, and what waiting and
    /// unregistering report after `body`, whose result is then lost.
    #[track_caller]
    pub fn scope<R>(
        device: &Device,
        memory: &mut [T],
        body: impl for<'s> FnOnce(&mut RegisteredBuffer<'s, T>) -> R,
    ) -> Result<R> {
        // SAFETY: the slice is borrowed until this function returns, and by then the buffer is closed; if `body` panics, it is
        // dropped, which waits for this kind. `body` cannot keep it: it gets a reference, and no other value of its type.
        let raw = unsafe { register(device, memory, Backing::Borrowed) }?;
        let mut buffer = RegisteredBuffer {
            raw,
            _memory: PhantomData,
        };
        assert_no_lock_held("the closure of a scope");
        let result = body(&mut buffer);
        buffer.raw.close()?;
        Ok(result)
    }
}

impl<T> RegisteredBuffer<'_, T> {
    /// The address of the first element for kernels; `None` if the device cannot map host memory.
    #[doc(alias = "cudaHostGetDevicePointer")]
    pub fn device_ptr(&self) -> Option<*const T> {
        self.raw
            .device_pointer()
            .map(|pointer| pointer.as_ptr().cast_const().cast())
    }
}

/// What registering says of memory that is registered already, or a part of it.
const ALREADY_REGISTERED: u32 = cudaError::cudaErrorHostMemoryAlreadyRegistered.0;

/// # Safety
///
/// The memory is valid, and nobody else uses it, until the buffer is closed or dropped.
#[track_caller]
unsafe fn register<T>(device: &Device, memory: *mut [T], backing: Backing) -> Result<RawBuffer> {
    const { element::assert_element::<T>() };
    let bytes = range::size_bytes::<T>(memory.len())?;
    let Some(pointer) = NonNull::new(memory.cast::<u8>()).filter(|_| bytes > 0) else {
        return Ok(RawBuffer::empty::<T>(device));
    };
    let capabilities = device.capabilities();
    if !capabilities.host_register {
        return Err(Error::NotSupported {
            what: "registered host memory".to_owned(),
            needs: "a device with the attribute hostRegisterSupported".to_owned(),
            have: format!("device {} ({})", device.ordinal(), device.name()),
        });
    }
    let mapped = capabilities.map_host_memory;
    // SAFETY: the caller's promise.
    let registered = unsafe {
        device
            .api()
            .host_register(device.ordinal(), pointer, bytes, mapped)
    };
    if let Err(
        error @ Error::Call {
            code: ALREADY_REGISTERED,
            ..
        },
    ) = registered
    {
        // By other code, whose registration stays.
        return Err(error);
    }
    // Unregisters from here on: also where the call says that it failed, for it may report a failure of earlier work, and be done.
    let raw = RawBuffer::new(device, (pointer, backing), None, bytes);
    registered?;
    let raw = raw.labelled(Label::of::<T>("RegisteredBuffer", Location::caller()));
    if !mapped {
        return Ok(raw);
    }
    // SAFETY: it is registered and mapped.
    let device_pointer = unsafe { device.api().host_device_pointer(device.ordinal(), pointer) }?;
    Ok(raw.mapped_at(device_pointer))
}
