//! Safe types of kernels, made of their signatures.

use crate::error::{Error, Result};
use crate::scalar::{Scalar, constant};
use std::any::type_name;

/// Makes a type of a module's kernels, with a safe method that launches each: for kernels whose arrays have one length.
///
/// The declaration has the parameters of each kernel in order: `&[T]` for an array that it reads, `&mut [T]` for one that it may write, numbers,
/// and the length of the arrays as a type of number. Then the method takes buffers and views of all kinds for the arrays
/// ([`ReadArg`](crate::kernel::ReadArg), [`WriteArg`](crate::kernel::WriteArg)) and each number plain, as a [`constant`](crate::constant) or with a
/// name. Arrays that differ in length are an [`Error::InvalidArgument`](crate::Error::InvalidArgument) with their names; without elements nothing is
/// launched. `with` has a function that makes the [`LaunchConfig`](crate::LaunchConfig) of the device and the length.
///
/// ```
/// # let device = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env().unwrap().table())?.device(0)?;
/// use cuda_um::{LaunchConfig, UnifiedBuffer};
///
/// cuda_um::kernel! {
///     /// The kernels of `add.cu`.
///     pub struct Adder in include_str!("../../tests/support/add.ptx");
///
///     /// Adds 1 to each element, `rounds` times.
///     // SAFETY: the kernel takes these parameters, and a thread touches the element of its number, if it is below `len`.
///     pub unsafe fn add = "add"(data: &mut [u32], len as u32, rounds: u32) with |_, len| LaunchConfig::linear(len, 256);
/// }
///
/// let mut data = UnifiedBuffer::<u32>::zeroed(&device, 1000)?;
/// Adder::load(&device)?.add(&device.create_stream()?, &mut data, 3u32)?;
/// assert_eq!(data.host()?[999], 3);
/// # Ok::<(), cuda_um::Error>(())
/// ```
///
/// # Safety
///
/// The word `unsafe` of a method promises, for arrays of any length and all values of the numbers:
///
/// - The kernel of the module has these parameters, in this order.
/// - It stays within the arrays, writes only those with `mut`, and stores no address for later.
#[macro_export]
macro_rules! kernel {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident in $ptx:expr;
        $(
            $(#[$doc:meta])*
            $method_vis:vis unsafe fn $method:ident = $kernel:literal ($($parameters:tt)*) with $grid:expr;
        )+
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug)]
        $vis struct $name {
            $($method: $crate::Kernel,)+
        }

        impl $name {
            /// Loads the module on a device.
            ///
            /// # Errors
            ///
            /// The device refuses the module, or a kernel is not in it.
            $vis fn load(device: &$crate::Device) -> $crate::Result<Self> {
                let module = $crate::Module::load(device, $ptx)?;
                Ok(Self {
                    $($method: module.kernel($kernel)?,)+
                })
            }

            $($crate::kernel! { @ { $(#[$doc])* $method_vis $method $kernel ($grid) } [] [] [] [] $($parameters)* })+
        }
    };
    (@ $of:tt [$($typed:tt)*] [$($arrays:tt)*] $len:tt [$($passed:tt)*] $name:ident: &mut [$element:ty] $(, $($rest:tt)*)?) => {
        $crate::kernel! {
            @ $of
            [$($typed)* $name: impl $crate::kernel::WriteArg<$element>,]
            [$($arrays)* $name WriteArg into_view_mut,]
            $len [$($passed)* $name,] $($($rest)*)?
        }
    };
    (@ $of:tt [$($typed:tt)*] [$($arrays:tt)*] $len:tt [$($passed:tt)*] $name:ident: &[$element:ty] $(, $($rest:tt)*)?) => {
        $crate::kernel! {
            @ $of
            [$($typed)* $name: impl $crate::kernel::ReadArg<$element>,]
            [$($arrays)* $name ReadArg into_view,]
            $len [$($passed)* $name,] $($($rest)*)?
        }
    };
    (@ $of:tt $typed:tt $arrays:tt [] [$($passed:tt)*] $len:ident as $number:ty $(, $($rest:tt)*)?) => {
        $crate::kernel! {
            @ $of $typed $arrays [$len]
            [$($passed)* $crate::kernel::length::<$number>($len)?,] $($($rest)*)?
        }
    };
    (@ $of:tt [$($typed:tt)*] $arrays:tt $len:tt [$($passed:tt)*] $name:ident: $number:ty $(, $($rest:tt)*)?) => {
        $crate::kernel! {
            @ $of
            [$($typed)* $name: impl Into<$crate::Scalar<$number>>,]
            $arrays $len
            [$($passed)* Into::<$crate::Scalar<$number>>::into($name),] $($($rest)*)?
        }
    };
    (
        @ { $(#[$doc:meta])* $vis:vis $method:ident $kernel:literal $grid:tt }
        [$($typed:tt)*] [$($array:ident $trait:ident $into:ident,)*] [$len:ident] [$($passed:tt)*]
    ) => {
        $(#[$doc])*
        ///
        /// # Ordering
        ///
        /// Enqueued on the stream when this returns, after earlier uses of the buffers on any stream.
        ///
        /// # Errors
        ///
        /// The buffers differ in length, or the launch fails.
        #[allow(unsafe_code, reason = "the promise of the declaration")]
        $vis fn $method(&self, stream: &$crate::Stream, $($typed)*) -> $crate::Result<()> {
            $(
                let $array = $crate::kernel::$trait::$into($array);
                let $array = $array.map_err(|error| error.of_argument($kernel, stringify!($array)))?;
            )*
            let $len = $crate::kernel::common_length($kernel, &[$((stringify!($array), $array.len())),*])?;
            if $len == 0 {
                return Ok(());
            }
            let config: $crate::LaunchConfig = ($grid)(self.$method.device(), $len);
            // SAFETY: the declaration's promise, for arrays of this length.
            unsafe { self.$method.launch(stream, config, ($($passed)*)) }
        }
    };
}

/// The length of all arrays of a launch. Not part of the public interface: [`kernel!`](crate::kernel!) uses it.
#[doc(hidden)]
pub fn common_length(kernel: &'static str, arrays: &[(&'static str, usize)]) -> Result<usize> {
    let len = arrays.first().map_or(0, |(_, len)| *len);
    match arrays.iter().find(|(_, other)| *other != len) {
        None => Ok(len),
        Some((array, found)) => Err(wrong_length(kernel, array, len, *found)),
    }
}

/// The error of a launcher's array that has another length than it needs.
#[doc(hidden)]
#[cold]
pub fn wrong_length(kernel: &'static str, array: &str, expected: usize, found: usize) -> Error {
    Error::InvalidArgument {
        what: kernel,
        value: format!("launched with {found} elements of `{array}`"),
        reason: format!("{expected} are needed"),
    }
}

/// A length as a kernel takes it.
#[doc(hidden)]
pub fn length<N: TryFrom<usize>>(len: usize) -> Result<Scalar<N>> {
    let number = N::try_from(len).map_err(|_| Error::InvalidArgument {
        what: "the length of a launch",
        value: len.to_string(),
        reason: format!("the kernel takes it as `{}`", type_name::<N>()),
    });
    number.map(constant)
}
