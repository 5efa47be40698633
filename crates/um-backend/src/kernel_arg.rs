//! The buffers as arguments of kernels: `&buffer` to read, `&mut buffer` to read and write, for each type and for `dyn Buffer`.
//!
//! A launcher that is safe to call takes the view (`into_view`) and uses its length: `Buffer::len` is what the implementation says.

use cuda_um::{
    View, ViewMut,
    kernel::{Arguments, KernelArg, ReadArg, WriteArg},
};

use crate::buffer::Buffer;
use crate::dtype::Element;
use crate::erased::ErasedBuffer;
use crate::host_buffer::HostBuffer;
use crate::shared::{SharedRead, SharedWrite};

/// Of an argument with any element type, and of one with the element type `T`.
macro_rules! argument {
    ($view:ident, $arg:ident, $into:ident: [$($element:tt)*] $buffer:ty, |$this:ident| $any:expr, $typed:expr) => {
        impl<$($element)*> KernelArg for $buffer {
            fn pass<'a>(self, arguments: &mut Arguments<'a>) -> cuda_um::Result<()>
            where
                Self: 'a,
            {
                let $this = self;
                $any?.pass(arguments)
            }
        }

        impl<T: Element> $arg<T> for $buffer {
            fn $into<'a>(self) -> cuda_um::Result<$view<'a, T>>
            where
                Self: 'a,
            {
                let $this = self;
                $typed
            }
        }
    };
}

macro_rules! arguments {
    ($($buffer:ty),*; erased $($erased:ty),*; erased_mut $($erased_mut:ty),*) => {
        $(
            argument!(View, ReadArg, into_view: [T: Element] &$buffer, |b| b.memory().device_view(), b.memory().device_view());
            argument!(ViewMut, WriteArg, into_view_mut: [T: Element] &mut $buffer, |b| b.memory_mut().device_view_mut(), b.memory_mut().device_view_mut());
        )*
        $(argument!(View, ReadArg, into_view: [] &$erased, |b| b.bytes().memory().device_view(), b.view());)*
        $(argument!(ViewMut, WriteArg, into_view_mut: [] &mut $erased_mut, |b| b.bytes_mut().memory_mut().device_view_mut(), b.view_mut());)*
    };
}
arguments!(
    (dyn Buffer<T> + '_), Box<dyn Buffer<T> + '_>, HostBuffer<T>;
    erased ErasedBuffer, SharedRead, SharedWrite;
    erased_mut ErasedBuffer, SharedWrite
);
