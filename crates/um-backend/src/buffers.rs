//! The buffers of `cuda_um` as buffers of a framework.

use std::any::Any;

use cuda_um::{Device, DeviceBuffer, PinnedBuffer, UnifiedBuffer};

use crate::buffer::Buffer;
use crate::dtype::{Element, dtype_of};
use crate::error::Result;
use crate::memory::{BufferMemory, BufferMemoryMut};

macro_rules! buffers {
    ($($buffer:ident),*) => {$(
        impl<T: Element> Buffer<T> for $buffer<T> {
            fn len(&self) -> usize {
                self.len()
            }

            fn device(&self) -> Option<&Device> {
                Some(self.device())
            }

            fn memory(&self) -> BufferMemory<'_, T> {
                const { dtype_of::<T>() };
                BufferMemory::Cuda(self.as_view())
            }

            fn memory_mut(&mut self) -> BufferMemoryMut<'_, T> {
                BufferMemoryMut::Cuda(self.as_view_mut())
            }

            fn clone_empty(&self, len: usize) -> Result<Box<dyn Buffer<T>>> {
                Ok(Box::new(self.zeroed_like(len)?))
            }

            fn set_name(&mut self, name: &str) {
                self.set_name(name);
            }

            fn name(&self) -> Option<&str> {
                self.name()
            }

            fn as_any(&self) -> &dyn Any {
                self
            }

            fn as_any_mut(&mut self) -> &mut dyn Any {
                self
            }
        }
    )*};
}
buffers!(DeviceBuffer, PinnedBuffer, UnifiedBuffer);
