//! What a caller declares to the simulator: the arguments of a launch, which it compares with the accesses of the kernel, and accesses of
//! the host that it cannot see.

use crate::bindings::common::PFN_cuLaunchKernel;
use crate::symbols::{self, Resolve};
use std::ffi::c_void;

/// An argument of a launch, for [`Table::declared_launch`](crate::Table::declared_launch).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct DeclaredArgument {
    /// False for a value, of which nothing else is declared.
    pub is_memory: bool,
    /// Whether the kernel may write the memory.
    pub may_write: bool,
    /// The bytes from the address on that the kernel may access.
    pub bytes: usize,
}

impl DeclaredArgument {
    /// An argument that is passed by value.
    pub const VALUE: Self = Self {
        is_memory: false,
        may_write: false,
        bytes: 0,
    };
}

/// The simulator's function for [`Table::declared_host_access`](crate::Table::declared_host_access): the first byte, the number of bytes,
/// and whether the host writes them.
pub type DeclareHostAccess = unsafe extern "C" fn(*const c_void, usize, bool);

/// The simulator's function for [`Table::simulated_available`](crate::Table::simulated_available).
pub type SimulatedAvailable = unsafe extern "C" fn(u32) -> usize;

/// The simulator's function in place of the operating system's; `None` in NVIDIA's libraries.
pub(crate) fn available(resolve: Resolve<'_>) -> Option<SimulatedAvailable> {
    // SAFETY: a library that has a function of this name is the simulator, which gives it this type.
    unsafe { symbols::function(resolve(c"cudaUmSimAvailable")) }
}

/// The simulator's function that takes accesses of the host; `None` in NVIDIA's libraries.
pub(crate) fn host_access(resolve: Resolve<'_>) -> Option<DeclareHostAccess> {
    // SAFETY: a library that has a function of this name is the simulator, which gives it this type.
    unsafe { symbols::function(resolve(c"cudaUmSimHostAccess")) }
}

/// The simulator's launch; `None` in NVIDIA's libraries.
pub(crate) fn launch(resolve: Resolve<'_>) -> Option<PFN_cuLaunchKernel> {
    // SAFETY: a library that has a function of this name is the simulator, which gives it this type.
    unsafe { symbols::function(resolve(c"cuUmSimLaunchKernel")) }
}
