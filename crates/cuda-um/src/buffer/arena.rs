//! The constructors of arenas, and of buffers in them.

use crate::DeviceCopy;
use crate::buffer::kind::DeviceBuffer;
use crate::context::device::Device;
use crate::error::{Error, Result};
use crate::resource::arena::DeviceArena;
use crate::resource::separate::DeviceMemory;

impl DeviceArena {
    /// Allocates an arena of `bytes`, a multiple of [`SLOT_BYTES`](Self::SLOT_BYTES), filled with zeros.
    ///
    /// # Ordering
    ///
    /// The zeros are enqueued on the device's [default stream](Device::default_stream); the buffers' uses are ordered after them.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for no slots or a part of one, [`Error::OutOfMemory`], and the errors of `cudaMalloc` and
    /// `cudaMemsetAsync`.
    #[track_caller]
    pub fn new(device: &Device, bytes: usize) -> Result<Self> {
        if bytes == 0 || !bytes.is_multiple_of(Self::SLOT_BYTES) {
            return Err(Error::InvalidArgument {
                what: "the size of an arena",
                value: format!("{bytes} bytes"),
                reason: format!("it is a multiple of {} bytes, and not 0", Self::SLOT_BYTES),
            });
        }
        let memory = DeviceBuffer::<u8>::zeroed_in(&DeviceMemory::new(device), bytes)?;
        Ok(Self::of(memory.raw))
    }

    /// Makes a buffer of `len` elements in the slots from `first_slot` on. The elements have unspecified values: the bytes are zeros, or
    /// those of earlier buffers.
    ///
    /// # Ordering
    ///
    /// The buffer's work is ordered after the work of earlier buffers in these slots.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if another buffer has one of the slots, or if the arena ends before; [`Error::TooLarge`].
    #[track_caller]
    pub fn place<T: DeviceCopy>(&self, first_slot: usize, len: usize) -> Result<DeviceBuffer<T>> {
        DeviceBuffer::made(self.device(), len, |bytes| self.take_at(first_slot, bytes))
    }
}
