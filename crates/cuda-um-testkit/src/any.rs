//! A buffer of any kind.

use cuda_um::resource::MemoryResource;
use cuda_um::{DeviceBuffer, PinnedBuffer, Result, Stream, UnifiedBuffer, View, ViewMut};
use std::ops::RangeBounds;

/// A buffer of any kind that functions allocate.
#[derive(Debug)]
pub enum AnyBuffer {
    Unified(UnifiedBuffer<u32>),
    Device(DeviceBuffer<u32>),
    Pinned(PinnedBuffer<u32>),
}

/// The same code for each kind: `each!(buffer, it => it.len())`.
#[macro_export]
macro_rules! each {
    ($buffer:expr, $it:ident => $do:expr) => {
        match $buffer {
            $crate::AnyBuffer::Unified($it) => $do,
            $crate::AnyBuffer::Device($it) => $do,
            $crate::AnyBuffer::Pinned($it) => $do,
        }
    };
}

/// A buffer for memory of this kind: `any_buffer!(kind, Buffer => Buffer::zeroed(&device, 10)?)`.
#[macro_export]
macro_rules! any_buffer {
    ($kind:expr, $buffer:ident => $make:expr) => {
        match $kind {
            cuda_um::MemoryKind::Device => {
                type $buffer = cuda_um::DeviceBuffer<u32>;
                $crate::AnyBuffer::Device($make)
            }
            cuda_um::MemoryKind::Pinned => {
                type $buffer = cuda_um::PinnedBuffer<u32>;
                $crate::AnyBuffer::Pinned($make)
            }
            _ => {
                type $buffer = cuda_um::UnifiedBuffer<u32>;
                $crate::AnyBuffer::Unified($make)
            }
        }
    };
}

impl AnyBuffer {
    pub fn zeroed_in(memory: &dyn MemoryResource, len: usize) -> Result<Self> {
        Ok(any_buffer!(memory.kind(), Buffer => Buffer::zeroed_in(memory, len)?))
    }

    pub fn from_slice_in(memory: &dyn MemoryResource, elements: &[u32]) -> Result<Self> {
        Ok(any_buffer!(memory.kind(), Buffer => Buffer::from_slice_in(memory, elements)?))
    }

    pub fn len(&self) -> usize {
        each!(self, buffer => buffer.len())
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn view(&self, range: impl RangeBounds<usize>) -> Result<View<'_, u32>> {
        each!(self, buffer => buffer.view(range))
    }

    pub fn view_mut(&mut self, range: impl RangeBounds<usize>) -> Result<ViewMut<'_, u32>> {
        each!(self, buffer => buffer.view_mut(range))
    }

    pub fn fill_on(&mut self, value: u32, stream: &Stream) {
        each!(self, buffer => buffer.fill_on(value, stream)).unwrap();
    }

    pub fn to_vec(&self) -> Result<Vec<u32>> {
        each!(self, buffer => buffer.to_vec())
    }

    pub fn close(self) -> Result<()> {
        each!(self, buffer => buffer.close())
    }
}
