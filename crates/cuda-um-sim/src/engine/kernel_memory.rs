//! The memory of a kernel: a launch, as its CPU reference sees it, and the accesses that it makes.

use cuda_um_sys::DeclaredArgument;
use std::borrow::Cow;
use std::time::Duration;

/// Shape of a launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LaunchShape {
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared_bytes: u32,
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

/// An access that a kernel requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) address: usize,
    pub(crate) bytes: usize,
    pub(crate) write: bool,
    /// The reference vouches for the range, even if it is system-allocated memory.
    pub(crate) system: bool,
}

/// An access that a kernel may make.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GrantedAccess {
    /// The address at which its bytes are read and written.
    pub(crate) view: usize,
    /// Time for the faults that it raised.
    pub(crate) time: Duration,
    /// Bytes over the link to the host.
    pub(crate) remote_bytes: u64,
    /// Bytes of other devices; `time` has the time for them.
    pub(crate) peer_bytes: u64,
}

/// The reason for which a kernel may not make an access.
pub(crate) type Refusal = Cow<'static, str>;

/// The memory that kernels access.
pub(crate) trait KernelMemory: Sync {
    /// Makes an access; the error says why the kernel may not make it.
    fn access(&self, launch: Launch, request: &Request) -> Result<GrantedAccess, Refusal>;

    /// Sets the value of a condition of a graph; returns false if there is none.
    fn set_condition(&self, handle: u64, value: u32) -> bool;

    /// Whether this process is a child made by `fork`, which has no simulated memory.
    fn is_inherited(&self) -> bool;
}
