//! An implementation outside the crate, which can break each rule on purpose.

use std::any::Any;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, ThreadId};

use um_backend::cuda_um::Error;
use um_backend::{
    Buffer, CudaError, Device, Element,
    memory::{BufferMemory, BufferMemoryMut},
};

/// The fault of an [`OpaqueBuffer`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    Nothing,
    Dirty,
    /// `as_any` returns a part of the buffer.
    AnyOfPart,
    /// A copy from the host misses the last element of long buffers.
    ShortWrite,
    /// A copy to a range goes to the start.
    ForgetsOffset,
    /// `copy_within` copies forwards, element by element.
    ForwardCopyWithin,
    /// The third copy from the host without a read in between is lost.
    ForgetsOneWrite,
    /// A copy with another length is cut.
    CutsLengths,
    /// A copy of a range outside is an error, but its first elements are written.
    WritesBeforeChecking,
    /// A copy of a range outside is the wrong error.
    OtherError,
    /// A clone of an impossible length is a short buffer.
    ShortClone,
    DirtyClone,
    /// `fill` does nothing on other threads than that of the allocation.
    OneThread,
}

/// Elements in a vector, which the crate cannot access.
#[derive(Debug)]
pub struct OpaqueBuffer<T> {
    elements: Vec<T>,
    fault: Fault,
    made_on: ThreadId,
    /// Copies from the host since the last read.
    writes: AtomicUsize,
}

impl<T: Element> OpaqueBuffer<T> {
    pub fn new(len: usize) -> Self {
        Self::with(Fault::Nothing, len)
    }

    pub fn with(fault: Fault, len: usize) -> Self {
        let mut buffer = Self {
            elements: vec![T::zeroed(); len],
            fault,
            made_on: thread::current().id(),
            writes: AtomicUsize::new(0),
        };
        if fault == Fault::Dirty {
            buffer.dirty();
        }
        buffer
    }

    fn dirty(&mut self) {
        bytemuck::cast_slice_mut::<T, u8>(&mut self.elements).fill(1);
    }

    fn part(&self, offset: usize, count: usize) -> Result<Range<usize>, CudaError> {
        let (start, end, len) = (offset, offset.saturating_add(count), self.elements.len());
        match end <= len && start <= len {
            true => Ok(start..end),
            false if self.fault == Fault::OtherError => Err(Error::TooLarge {
                len,
                element_bytes: 1,
            }),
            false => Err(Error::RangeOutOfBounds { start, end, len }),
        }
    }
}

impl<T: Element> Buffer<T> for OpaqueBuffer<T> {
    fn len(&self) -> usize {
        self.elements.len()
    }

    fn device(&self) -> Option<&Device> {
        None
    }

    fn memory(&self) -> BufferMemory<'_, T> {
        BufferMemory::Opaque
    }

    fn memory_mut(&mut self) -> BufferMemoryMut<'_, T> {
        BufferMemoryMut::Opaque
    }

    fn clone_empty(&self, len: usize) -> Result<Box<dyn Buffer<T>>, CudaError> {
        let element_bytes = size_of::<T>();
        let len = match len.checked_mul(element_bytes) {
            Some(bytes) if isize::try_from(bytes).is_ok() => len,
            _ if self.fault == Fault::ShortClone => 1,
            _ => return Err(Error::TooLarge { len, element_bytes }),
        };
        let mut clone = Self::with(self.fault, len);
        if self.fault == Fault::DirtyClone {
            clone.dirty();
        }
        Ok(Box::new(clone))
    }

    fn as_any(&self) -> &dyn Any {
        match self.fault {
            Fault::AnyOfPart => &self.fault,
            _ => self,
        }
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn copy_from_host(&mut self, source: &[T]) -> Result<(), CudaError> {
        let count = self.len().min(source.len());
        if count != source.len().max(self.len()) && self.fault != Fault::CutsLengths {
            return Err(Error::LengthMismatch {
                what: "copy_from_host",
                expected: self.len(),
                found: source.len(),
            });
        }
        self.copy_from_host_at(0, &source[..count])
    }

    fn copy_from_host_at(&mut self, offset: usize, source: &[T]) -> Result<(), CudaError> {
        let part = self.part(offset, source.len());
        if self.fault == Fault::WritesBeforeChecking && part.is_err() {
            let beyond = self.elements.iter_mut().skip(offset).zip(source);
            beyond.for_each(|(element, new)| *element = *new);
        }
        let mut part = part?;
        let earlier = self.writes.fetch_add(1, Ordering::Relaxed);
        match self.fault {
            Fault::ForgetsOneWrite if earlier >= 2 => return Ok(()),
            Fault::ForgetsOffset => part = 0..source.len(),
            Fault::ShortWrite if part.len() > 1000 => part.end -= 1,
            _ => {}
        }
        let count = part.len();
        self.elements[part].copy_from_slice(&source[..count]);
        Ok(())
    }

    fn copy_to_host_at(&self, offset: usize, target: &mut [T]) -> Result<(), CudaError> {
        self.writes.store(0, Ordering::Relaxed);
        target.copy_from_slice(&self.elements[self.part(offset, target.len())?]);
        Ok(())
    }

    fn fill(&mut self, value: T) -> Result<(), CudaError> {
        let is_elsewhere = thread::current().id() != self.made_on;
        if !(is_elsewhere && self.fault == Fault::OneThread) {
            self.elements.fill(value);
        }
        Ok(())
    }

    fn copy_within(&mut self, range: Range<usize>, to: usize) -> Result<(), CudaError> {
        let range = self.part(range.start, range.len())?;
        self.part(to, range.len())?;
        if self.fault == Fault::ForwardCopyWithin {
            for (index, from) in range.enumerate() {
                self.elements[to + index] = self.elements[from];
            }
        } else {
            self.elements.copy_within(range, to);
        }
        Ok(())
    }
}
