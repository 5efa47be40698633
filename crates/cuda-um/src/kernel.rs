//! Kernels: modules, arguments, launches.

pub(crate) mod argument;
pub(crate) mod arguments;
#[cfg(feature = "nvrtc")]
mod compile;
pub(crate) mod foreign;
pub(crate) mod launch;
pub(crate) mod module;

pub use crate::buffer::array::{ReadArg, WriteArg};
pub use crate::kernel::argument::{KernelArg, KernelArgs};
pub use crate::kernel::arguments::Arguments;
pub use crate::kernel::foreign::ForeignWork;
