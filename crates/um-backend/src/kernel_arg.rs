//! The buffers as arguments of kernels: `&buffer` to read, `&mut buffer` to read and write, for each type and for `dyn Buffer`.
//!
//! A launcher that is safe to call takes the view (`into_view`) and uses its length: `Buffer::len` is what the implementation says.

use cuda_um::{
    KernelArg, View, ViewMut,
    kernel::{Arguments, ReadArg, WriteArg},
};

use crate::buffer::Buffer;
use crate::dtype::Element;
use crate::erased::ErasedBuffer;
use crate::host_buffer::HostBuffer;
use crate::typed::Typed;

macro_rules! kernel_args {
    ($($buffer:ty),*) => {$(
        impl<T: Element> KernelArg for &$buffer {
            fn pass<'a>(self, arguments: &mut Arguments<'a>) -> cuda_um::Result<()>
            where
                Self: 'a,
            {
                self.into_view()?.pass(arguments)
            }
        }

        impl<T: Element> ReadArg<T> for &$buffer {
            fn into_view<'a>(self) -> cuda_um::Result<View<'a, T>>
            where
                Self: 'a,
            {
                self.memory().device_view()
            }
        }

        impl<T: Element> KernelArg for &mut $buffer {
            fn pass<'a>(self, arguments: &mut Arguments<'a>) -> cuda_um::Result<()>
            where
                Self: 'a,
            {
                self.into_view_mut()?.pass(arguments)
            }
        }

        impl<T: Element> WriteArg<T> for &mut $buffer {
            fn into_view_mut<'a>(self) -> cuda_um::Result<ViewMut<'a, T>>
            where
                Self: 'a,
            {
                self.memory_mut().device_view_mut()
            }
        }
    )*};
}
kernel_args!((dyn Buffer<T> + '_), HostBuffer<T>, Typed<T>);

impl KernelArg for &ErasedBuffer {
    fn pass<'a>(self, arguments: &mut Arguments<'a>) -> cuda_um::Result<()>
    where
        Self: 'a,
    {
        self.bytes().pass(arguments)
    }
}

impl<T: Element> ReadArg<T> for &ErasedBuffer {
    fn into_view<'a>(self) -> cuda_um::Result<View<'a, T>>
    where
        Self: 'a,
    {
        self.check_type::<T>()?;
        self.bytes().memory().device_view()?.cast()
    }
}

impl KernelArg for &mut ErasedBuffer {
    fn pass<'a>(self, arguments: &mut Arguments<'a>) -> cuda_um::Result<()>
    where
        Self: 'a,
    {
        self.bytes_mut().pass(arguments)
    }
}

impl<T: Element> WriteArg<T> for &mut ErasedBuffer {
    fn into_view_mut<'a>(self) -> cuda_um::Result<ViewMut<'a, T>>
    where
        Self: 'a,
    {
        self.check_type::<T>()?;
        self.bytes_mut().memory_mut().device_view_mut()?.cast()
    }
}
