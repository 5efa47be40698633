//! The buffers as arguments of kernels: `&buffer` to read, `&mut buffer` to read and write, for each type and for `dyn Buffer`.
//!
//! A launcher that is safe to call takes the view (`into_view`) and uses its length: `Buffer::len` is what the implementation says.

use cuda_um::{
    KernelArg, View, ViewMut,
    kernel::{Arguments, ReadArg, WriteArg},
};

use crate::buffer::Buffer;
use crate::cuda_buffer::CudaBuffer;
use crate::dtype::Element;
use crate::erased::ErasedBuffer;
use crate::error::CudaError;
use crate::host_buffer::HostBuffer;
use crate::pinned_buffer::PinnedBuffer;
use crate::typed::Typed;
use crate::unified_buffer::UnifiedBuffer;

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
                self.memory().device_view().map_err(below)
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
                self.memory_mut().device_view_mut().map_err(below)
            }
        }
    )*};
}
kernel_args!(
    (dyn Buffer<T> + '_),
    CudaBuffer<T>,
    HostBuffer<T>,
    PinnedBuffer<T>,
    Typed<T>,
    UnifiedBuffer<T>
);

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
        self.typed().map_err(below)?.into_view()
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
        self.typed_mut().map_err(below)?.into_view_mut()
    }
}

/// The error of the layer below that a launch returns.
fn below(error: CudaError) -> cuda_um::Error {
    match error {
        CudaError::Cuda(error) => error,
        other => cuda_um::Error::InvalidArgument {
            what: "the buffer",
            value: "an argument of a kernel".to_owned(),
            reason: other.to_string(),
        },
    }
}
