//! An implementation outside the crate, which can break each rule on purpose.

use std::any::Any;
use std::io::Write;
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, ThreadId};

use um_backend::cuda_um::Error;
use um_backend::{
    Advice, Buffer, CudaError, DType, Device, Element, HintOutcome, HostRef,
    memory::{BufferMemory, BufferMemoryMut},
};

macro_rules! faults {
    ($($(#[$doc:meta])* $fault:ident,)*) => {
        /// The fault of an [`OpaqueBuffer`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Fault {
            Nothing,
            $($(#[$doc])* $fault,)*
        }

        impl Fault {
            pub const ALL: &[Self] = &[$(Self::$fault),*];
        }
    };
}

faults! {
    /// New buffers are not zero.
    Dirty,
    /// The capacity is less than the length.
    SmallCapacity,
    /// The dtype is wrong.
    OtherDType,
    /// A copy from the host misses the last element of long buffers.
    ShortWrite,
    /// A copy to a range goes to the start.
    ForgetsOffset,
    /// A copy with another length is cut.
    CutsLengths,
    /// A copy of a range outside is an error, but its first elements are written.
    WritesBeforeChecking,
    /// A copy of a range outside is the wrong error.
    OtherError,
    /// `to_vec` of a long buffer misses its last elements.
    ShortReadBack,
    /// `fill` misses the last element of long buffers.
    ShortFill,
    /// `set_zero` does nothing.
    NoZero,
    /// Clones have the original's length.
    CloneLength,
    /// Clones are not zero.
    DirtyClone,
    /// A clone of an impossible length is a short buffer.
    ShortClone,
    /// `as_any` returns a part of the buffer.
    AnyOfPart,
    /// A copy of a range starts at the start of the source.
    ForgetsSourceRange,
    /// Copies between buffers do not check ranges.
    UncheckedPair,
    /// A copy of a whole long buffer misses the last element.
    ShortCopy,
    /// A copy of a whole long buffer has the elements of the first copy.
    StaleSource,
    /// `fill` does nothing on other threads than that of the allocation.
    OneThread,
    /// `fill_range` of a long buffer begins one element late.
    LateFillRange,
    /// `copy_within` copies forwards, element by element.
    ForwardCopyWithin,
    /// `try_clone` forgets the elements.
    EmptyClone,
    /// `host` misses the last element of a long buffer.
    ShortHost,
    /// `write_to` writes everything.
    WritesAll,
    /// `advise_range` takes any range.
    AnyAdvice,
    /// The third copy from the host without a read in between is lost.
    ForgetsOneWrite,
}

/// Elements in a vector, which the crate cannot access.
#[derive(Debug)]
pub struct OpaqueBuffer<T> {
    elements: Vec<T>,
    fault: Fault,
    made_on: ThreadId,
    first_copied: OnceLock<Vec<T>>,
    /// Copies from the host since the last read.
    writes: AtomicUsize,
}

impl<T: Element> OpaqueBuffer<T> {
    pub fn new(len: usize) -> Self {
        Self::with(Fault::Nothing, len)
    }

    pub fn with(fault: Fault, len: usize) -> Self {
        let mut elements = vec![T::zeroed(); len];
        if fault == Fault::Dirty {
            elements.fill(something());
        }
        Self {
            elements,
            fault,
            made_on: thread::current().id(),
            first_copied: OnceLock::new(),
            writes: AtomicUsize::new(0),
        }
    }

    fn part(&self, offset: usize, count: usize) -> Result<Range<usize>, CudaError> {
        let (end, len) = (offset.saturating_add(count), self.elements.len());
        if end <= len && offset <= len {
            return Ok(offset..end);
        }
        Err(match self.fault {
            Fault::OtherError => Error::TooLarge {
                len,
                element_bytes: 1,
            },
            _ => Error::RangeOutOfBounds {
                start: offset,
                end,
                len,
            },
        })
    }
}

fn something<T: Element>() -> T {
    let mut element = T::zeroed();
    bytemuck::bytes_of_mut(&mut element).fill(1);
    element
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

    fn capacity(&self) -> usize {
        self.len()
            .saturating_sub((self.fault == Fault::SmallCapacity).into())
    }

    fn dtype(&self) -> DType {
        if self.fault == Fault::OtherDType {
            DType::U8
        } else {
            T::DTYPE
        }
    }

    fn clone_empty(&self, len: usize) -> Result<Box<dyn Buffer<T>>, CudaError> {
        let len = if self.fault == Fault::CloneLength {
            self.len()
        } else {
            len
        };
        let len = match len.checked_mul(size_of::<T>()) {
            Some(bytes) if isize::try_from(bytes).is_ok() => len,
            _ if self.fault == Fault::ShortClone => 1,
            _ => {
                let element_bytes = size_of::<T>();
                return Err(Error::TooLarge { len, element_bytes });
            }
        };
        let mut clone = Self::with(self.fault, len);
        if self.fault == Fault::DirtyClone {
            clone.elements.fill(something());
        }
        Ok(Box::new(clone))
    }

    fn as_any(&self) -> &dyn Any {
        if self.fault == Fault::AnyOfPart {
            return &self.fault;
        }
        self
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
        if self.fault == Fault::WritesBeforeChecking && self.part(offset, source.len()).is_err() {
            for (element, new) in self.elements.iter_mut().skip(offset).zip(source) {
                *element = *new;
            }
        }
        let mut part = self.part(offset, source.len())?;
        let earlier = self.writes.fetch_add(1, Ordering::Relaxed);
        if self.fault == Fault::ForgetsOneWrite && earlier >= 2 {
            return Ok(());
        }
        if self.fault == Fault::ForgetsOffset {
            part = 0..source.len();
        }
        if self.fault == Fault::ShortWrite && part.len() > 1000 {
            part.end -= 1;
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

    fn to_vec(&self) -> Result<Vec<T>, CudaError> {
        let mut elements = self.elements.clone();
        if self.fault == Fault::ShortReadBack {
            elements.truncate(1000);
        }
        Ok(elements)
    }

    fn fill(&mut self, value: T) -> Result<(), CudaError> {
        if self.fault == Fault::OneThread && thread::current().id() != self.made_on {
            return Ok(());
        }
        let missed = usize::from(self.fault == Fault::ShortFill && self.len() > 1000);
        let end = self.len() - missed;
        self.elements[..end].fill(value);
        Ok(())
    }

    fn set_zero(&mut self) -> Result<(), CudaError> {
        if self.fault == Fault::NoZero {
            return Ok(());
        }
        self.elements.fill(T::zeroed());
        Ok(())
    }

    fn fill_range(&mut self, range: Range<usize>, value: T) -> Result<(), CudaError> {
        let mut range = self.part(range.start, range.len())?;
        if self.fault == Fault::LateFillRange && range.len() > 400 {
            range.start += 1;
        }
        self.elements[range].fill(value);
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

    fn try_clone(&self) -> Result<Box<dyn Buffer<T>>, CudaError> {
        let mut clone = self.clone_empty(self.len())?;
        if self.fault != Fault::EmptyClone {
            clone.copy_from_host(&self.elements)?;
        }
        Ok(clone)
    }

    fn host(&self) -> Result<HostRef<'_, T>, CudaError> {
        let missed = usize::from(self.fault == Fault::ShortHost && self.len() > 1000);
        Ok(self.elements[..self.len() - missed].into())
    }

    fn write_to(&self, target: &mut dyn Write, range: Range<usize>) -> Result<(), CudaError> {
        let range = self.part(range.start, range.len())?;
        let written = match self.fault {
            Fault::WritesAll => &self.elements[..],
            _ => &self.elements[range],
        };
        target.write_all(bytemuck::cast_slice(written)).unwrap();
        Ok(())
    }

    fn advise_range(&self, range: Range<usize>, _: Advice) -> Result<HintOutcome, CudaError> {
        if self.fault != Fault::AnyAdvice {
            self.part(range.start, range.len())?;
        }
        Ok(HintOutcome::Applied)
    }

    fn copy_from_buffer_at(
        &mut self,
        offset: usize,
        source: &dyn Buffer<T>,
        range: Range<usize>,
    ) -> Result<(), CudaError> {
        let source_len = source.len();
        if range.start > range.end || range.end > source_len {
            if self.fault == Fault::UncheckedPair {
                return Ok(());
            }
            return Err(Error::RangeOutOfBounds {
                start: range.start,
                end: range.end,
                len: source_len,
            });
        }
        let start = if self.fault == Fault::ForgetsSourceRange {
            0
        } else {
            range.start
        };
        let whole = range.len() == source_len && source_len > 1000;
        let missed = usize::from(self.fault == Fault::ShortCopy && whole);
        let mut part = vec![T::zeroed(); range.len() - missed];
        source.copy_to_host_at(start, &mut part)?;
        if self.fault == Fault::StaleSource
            && whole
            && let Some(source) = source.as_any().downcast_ref::<Self>()
        {
            let first = source.first_copied.get_or_init(|| source.elements.clone());
            part.copy_from_slice(&first[range]);
        }
        self.copy_from_host_at(offset, &part)
    }
}
