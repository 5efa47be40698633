//! A launch of a kernel.

use cuda_um_sys::DeclaredArgument;
use std::time::Duration;

/// Shape of a launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LaunchShape {
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared_bytes: u32,
    /// Blocks may wait for each other.
    pub(crate) cooperative: bool,
}

/// A parameter of a launch.
#[derive(Clone, Debug)]
pub(crate) struct Parameter {
    /// Its argument.
    pub(crate) bytes: Vec<u8>,
    /// The memory that the caller declared for the argument, if it declared any.
    pub(crate) memory: Option<DeclaredArgument>,
}

/// The launch that accesses memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Launch {
    pub(crate) device: usize,
    pub(crate) stream: usize,
    /// Its number, as `Handles` counts.
    pub(crate) number: usize,
    /// The time of its next access, on the virtual clock.
    pub(crate) now: Duration,
}
