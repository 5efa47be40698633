//! A copy that may be staged.
#![allow(unsafe_code, reason = "sends addresses")]

use crate::driver::CopyKind;

/// Which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    ToDevice,
    ToHost,
}

/// A copy between the host and memory of a device.
#[derive(Clone, Copy)]
pub(crate) struct Staged<'a> {
    pub(crate) direction: Direction,
    pub(crate) host: Host<'a>,
    pub(crate) device: *mut u8,
    pub(crate) bytes: usize,
    /// Bytes that stay together in one piece.
    pub(crate) unit_bytes: usize,
    /// How CUDA is told what the two are.
    pub(crate) kind: CopyKind,
}

/// The host's side.
#[derive(Clone, Copy)]
pub(crate) enum Host<'a> {
    Memory(*mut u8),
    /// Bytes that are made as they are needed: from which byte on, where to, how many.
    Produced(&'a (dyn Fn(usize, *mut u8, usize) + Sync)),
}

// SAFETY: whoever makes one promises `copy` that the memory is its own for that time, on whatever thread.
unsafe impl Sync for Staged<'_> {}
