//! The host's access to buffers of cuda-core, in place.
#![allow(unsafe_code, reason = "slices of managed memory")]

use crate::Element;
use crate::buffer::address;
use crate::error::Result;
use crate::shared::SharedStream;
use cuda_core::{AllocationLease, DeviceBuffer};
use cuda_um::UnifiedBuffer;
use std::ops::{Deref, DerefMut};

/// The host's access to a buffer: [`SharedStream::host`] (`S` is `&[T]`) and [`SharedStream::host_mut`] (`&mut [T]`). While it lives, cuda-core
/// refuses conflicting accesses.
#[derive(Debug)]
pub struct Host<S> {
    elements: S,
    _lease: AllocationLease,
}

impl<T, S: Deref<Target = [T]>> Deref for Host<S> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.elements
    }
}

impl<T, S: DerefMut<Target = [T]>> DerefMut for Host<S> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.elements
    }
}

impl SharedStream {
    /// Waits for this stream and for writes of the buffer on other streams, and reads in place.
    ///
    /// # Errors
    ///
    /// [`Error::OtherContext`](crate::Error::OtherContext) and [`Error::Busy`](crate::Error::Busy); `Foreign` of cuda-um if the memory is not
    /// managed; and the errors of the waits.
    #[doc(alias = "cuStreamSynchronize")]
    pub fn host<'b, T: Element>(&self, buffer: &'b DeviceBuffer<T>) -> Result<Host<&'b [T]>> {
        let (pointer, lease) = self.access(buffer, false)?;
        // SAFETY: `access` checked that so many elements are there, in memory that the host can access at any time. Writes are over, and the
        // lease excludes new ones.
        let elements = unsafe { std::slice::from_raw_parts(pointer, buffer.len()) };
        Ok(Host {
            elements,
            _lease: lease,
        })
    }

    /// Waits for this stream and for all accesses of the buffer on other streams, and writes in place.
    ///
    /// # Errors
    ///
    /// As for [`host`](Self::host).
    #[doc(alias = "cuStreamSynchronize")]
    pub fn host_mut<'b, T: Element>(
        &self,
        buffer: &'b mut DeviceBuffer<T>,
    ) -> Result<Host<&'b mut [T]>> {
        let (pointer, lease) = self.access(buffer, true)?;
        // SAFETY: as in `host`; reads are over, too, and excluded.
        let elements = unsafe { std::slice::from_raw_parts_mut(pointer, buffer.len()) };
        Ok(Host {
            elements,
            _lease: lease,
        })
    }

    fn access<T: Element>(
        &self,
        buffer: &DeviceBuffer<T>,
        writes: bool,
    ) -> Result<(*mut T, AllocationLease)> {
        self.shared().check("the buffer", buffer.context())?;
        let (device, pointer) = (self.shared().device(), address(buffer));
        // SAFETY: checks that CUDA reports so many elements of managed memory. The buffer is not used.
        unsafe { UnifiedBuffer::from_foreign(device, pointer, buffer.len(), ()) }?;
        self.theirs().synchronize()?;
        let lease = self.lease(buffer.storage(), self.shared().exclusive(), writes)?;
        Ok((pointer.as_ptr(), lease))
    }
}
