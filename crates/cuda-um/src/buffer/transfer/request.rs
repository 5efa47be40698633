//! The description of a copy that may be staged.
#![allow(unsafe_code, reason = "sends addresses to other threads")]

use crate::context::tracker::Access;
use crate::driver::CopyKind;

/// The direction of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    ToDevice,
    ToHost,
}

impl Direction {
    /// The function of the caller, and the use of the device's memory.
    pub(crate) fn names(self) -> (&'static str, Access) {
        match self {
            Self::ToDevice => ("copy_from_host", Access::Write),
            Self::ToHost => ("copy_to_host", Access::Read),
        }
    }

    pub(crate) fn kind(self) -> CopyKind {
        match self {
            Self::ToDevice => CopyKind::HostToDevice,
            Self::ToHost => CopyKind::DeviceToHost,
        }
    }

    /// The target and the source.
    pub(crate) fn ends(self, device: *mut u8, host: *mut u8) -> (*mut u8, *const u8) {
        match self {
            Self::ToDevice => (device, host),
            Self::ToHost => (host, device),
        }
    }
}

/// A copy between the host and a device's memory.
#[derive(Clone, Copy)]
pub(crate) struct Staged<'a> {
    pub(crate) direction: Direction,
    pub(crate) host: Host<'a>,
    pub(crate) device: *mut u8,
    pub(crate) bytes: usize,
    /// The bytes of one element, which a piece may not split.
    pub(crate) unit_bytes: usize,
    /// The kind of copy that CUDA gets.
    pub(crate) kind: CopyKind,
}

/// The host's side of a copy.
#[derive(Clone, Copy)]
pub(crate) enum Host<'a> {
    Memory(*mut u8),
    /// A closure that produces the bytes: its arguments are the first byte, the target address, and the number of bytes.
    Produced(&'a (dyn Fn(usize, *mut u8, usize) + Sync)),
}

// SAFETY: the caller of `copy` promises that any thread may use the memory for that time.
unsafe impl Sync for Staged<'_> {}
