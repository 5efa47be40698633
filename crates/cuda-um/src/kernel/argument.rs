//! The types that a kernel accepts as arguments.

use crate::buffer::any::{Memory, MemoryMut, Raw, RawMut};
use crate::buffer::view::{View, ViewMut};
use crate::context::device::Device;
use crate::context::tracked::Part;
use crate::context::tracker::Access;
use crate::error::{Error, Result};
use crate::resource::allocation::Allocation;
use smallvec::SmallVec;
use std::ops::Range;

/// One argument of a kernel: `&buffer` or a [`View`] to read, `&mut buffer` or a [`ViewMut`] to read and write, or a number.
///
/// It cannot be implemented outside this crate.
pub trait KernelArg: Pass {}

/// An argument that a kernel reads as an array of `T`: `&` of any buffer, or a [`View`].
pub trait ReadArg<T>: KernelArg {
    /// Returns the number of elements.
    fn len(&self) -> usize;

    /// Returns true if the argument has no elements.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// An argument that a kernel reads and writes as an array of `T`: `&mut` of any buffer, or a [`ViewMut`].
pub trait WriteArg<T>: KernelArg {
    /// Returns the number of elements.
    fn len(&self) -> usize;

    /// Returns true if the argument has no elements.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A tuple of up to 16 [`KernelArg`]s, or a list of them ([`Arguments`](crate::Arguments)).
pub trait KernelArgs: Pass {}

pub(super) use sealed::{Parameters, Pass};

mod sealed {
    use super::*;

    /// Appends arguments to a launch.
    pub trait Pass {
        #[doc(hidden)]
        fn pass<'a>(&'a self, parameters: &mut Parameters<'a>);
    }

    /// The arguments of one launch, in order.
    #[derive(Default)]
    pub struct Parameters<'a> {
        /// Numbers and addresses; the driver reads as many bytes as the kernel's parameter has, at most 8.
        pub(super) values: SmallVec<[[u8; 8]; 16]>,
        pub(super) buffers: SmallVec<[(&'a Allocation, Access); 16]>,
        /// The buffers, with the range of bytes that the kernel gets of each.
        pub(super) bytes: SmallVec<[Range<usize>; 16]>,
    }
}

impl<'a> Parameters<'a> {
    fn push(&mut self, bytes: &[u8]) {
        let mut value = [0; 8];
        value[..bytes.len()].copy_from_slice(bytes);
        self.values.push(value);
    }

    fn push_buffer(&mut self, raw: &'a Allocation, bytes: Range<usize>, access: Access) {
        let start = raw.device_pointer().unwrap_or(raw.pointer()).as_ptr() as usize;
        self.push(&((start + bytes.start) as u64).to_ne_bytes());
        self.buffers.push((raw, access));
        self.bytes.push(bytes);
    }

    /// Returns the address of each value. The driver only reads them.
    pub(super) fn values(&mut self) -> impl Iterator<Item = *mut [u8; 8]> {
        self.values.iter_mut().map(|value| &raw mut *value)
    }

    /// Returns the parts of buffers that the kernel gets.
    pub(super) fn parts(&self) -> impl Iterator<Item = Part<'a>> + Clone {
        let parts = self.buffers.iter().zip(&self.bytes);
        parts.map(|((raw, access), bytes)| raw.part_of(bytes.clone(), *access))
    }

    /// Refuses buffers that a kernel on the device cannot reach.
    pub(super) fn check(&self, device: &Device) -> Result<()> {
        for (raw, _) in &self.buffers {
            if !device.runtime().is_same(raw.device().runtime()) {
                return Err(Error::RuntimeMismatch { what: "the buffer" });
            }
            if raw.is_host_memory() && raw.bytes() > 0 && raw.device_pointer().is_none() {
                return Err(Error::NotSupported {
                    what: format!(
                        "a kernel's use of {} memory (buffer {})",
                        raw.name_of_kind(),
                        raw.id()
                    ),
                    needs: "a device that maps host memory".to_owned(),
                    have: format!("device {} ({})", device.ordinal(), device.name()),
                });
            }
            let (expected, found) = (device.ordinal(), raw.device().ordinal());
            if !raw.is_for_all_devices() && expected != found {
                return Err(Error::DeviceMismatch {
                    what: "a buffer of the launch",
                    expected,
                    found,
                });
            }
        }
        Ok(())
    }
}

impl<M: Raw> Pass for &M {
    fn pass<'a>(&'a self, parameters: &mut Parameters<'a>) {
        let (raw, bytes) = self.raw_part();
        parameters.push_buffer(raw, bytes, Access::Read);
    }
}
impl<M: Raw> KernelArg for &M {}
impl<T, M: Memory<T>> ReadArg<T> for &M {
    fn len(&self) -> usize {
        self.element_count()
    }
}

impl<M: RawMut> Pass for &mut M {
    fn pass<'a>(&'a self, parameters: &mut Parameters<'a>) {
        let (raw, bytes) = self.raw_part();
        parameters.push_buffer(raw, bytes, Access::Write);
    }
}
impl<M: RawMut> KernelArg for &mut M {}
impl<T, M: MemoryMut<T>> WriteArg<T> for &mut M {
    fn len(&self) -> usize {
        self.element_count()
    }
}

impl<T> Pass for View<'_, T> {
    fn pass<'a>(&'a self, parameters: &mut Parameters<'a>) {
        parameters.push_buffer(self.raw, self.bytes(), Access::Read);
    }
}
impl<T> KernelArg for View<'_, T> {}
impl<T> ReadArg<T> for View<'_, T> {
    fn len(&self) -> usize {
        self.len()
    }
}

impl<T> Pass for ViewMut<'_, T> {
    fn pass<'a>(&'a self, parameters: &mut Parameters<'a>) {
        parameters.push_buffer(self.raw, self.bytes(), Access::Write);
    }
}
impl<T> KernelArg for ViewMut<'_, T> {}
impl<T> WriteArg<T> for ViewMut<'_, T> {
    fn len(&self) -> usize {
        self.len()
    }
}

macro_rules! numbers {
    ($($number:ty)*) => {$(
        impl Pass for $number {
            fn pass<'a>(&'a self, parameters: &mut Parameters<'a>) {
                parameters.push(bytemuck::bytes_of(self));
            }
        }
        impl KernelArg for $number {}
    )*};
}
numbers!(u8 i8 u16 i16 u32 i32 u64 i64 f32 f64);
#[cfg(feature = "half")]
numbers!(half::f16 half::bf16);

macro_rules! tuples {
    ($($argument:ident)*) => {
        tuples!(@ [] $($argument)*);
    };
    (@ [$($taken:ident)*]) => {
        tuple!($($taken)*);
    };
    (@ [$($taken:ident)*] $next:ident $($rest:ident)*) => {
        tuple!($($taken)*);
        tuples!(@ [$($taken)* $next] $($rest)*);
    };
}
macro_rules! tuple {
    ($($argument:ident)*) => {
        impl<$($argument: KernelArg),*> Pass for ($($argument,)*) {
            #[allow(non_snake_case, unused_variables, reason = "one variable for each type, and none for no arguments")]
            fn pass<'a>(&'a self, parameters: &mut Parameters<'a>) {
                let ($($argument,)*) = self;
                $($argument.pass(parameters);)*
            }
        }
        impl<$($argument: KernelArg),*> KernelArgs for ($($argument,)*) {}
    };
}
tuples!(A B C D E F G H I J K L M N O P);
