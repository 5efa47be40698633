//! Kernels: modules, arguments, launches.

pub(crate) mod argument;
pub(crate) mod arguments;
#[cfg(feature = "nvrtc")]
mod compile;
pub(crate) mod foreign;
pub(crate) mod launch;
pub(crate) mod module;
mod typed;

pub use crate::buffer::array::{ReadArg, WriteArg};
pub use crate::kernel::argument::{KernelArg, KernelArgs};
pub use crate::kernel::arguments::Arguments;
pub use crate::kernel::foreign::ForeignWork;
#[doc(hidden)]
pub use crate::kernel::typed::{common_length, length, wrong_length};
