//! What all buffers have in common.

use crate::buffer::device::DeviceBuffer;
use crate::buffer::pinned::PinnedBuffer;
use crate::buffer::registered::RegisteredBuffer;
use crate::buffer::unified::UnifiedBuffer;
use crate::resource::allocation::RawBuffer;

/// A buffer of any kind: [`UnifiedBuffer`], [`DeviceBuffer`], [`PinnedBuffer`], [`RegisteredBuffer`].
///
/// It cannot be implemented outside this crate.
pub trait Memory<T>: sealed::Raw {
    /// How many elements it has.
    fn element_count(&self) -> usize {
        self.raw().bytes() / size_of::<T>()
    }
}

mod sealed {
    /// The way to the untyped buffer.
    pub trait Raw {
        #[doc(hidden)]
        fn raw(&self) -> &crate::resource::allocation::RawBuffer;
    }
}
pub(crate) use sealed::Raw;

macro_rules! implement_memory {
    ($([$($generics:tt)*] $buffer:ty;)*) => {$(
        impl<$($generics)*> Raw for $buffer {
            fn raw(&self) -> &RawBuffer {
                &self.raw
            }
        }
        impl<$($generics)*> Memory<T> for $buffer {}
    )*};
}
implement_memory! {
    [T] UnifiedBuffer<T>;
    [T] DeviceBuffer<T>;
    [T] PinnedBuffer<T>;
    ['m, T] RegisteredBuffer<'m, T>;
}
