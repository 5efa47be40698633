//! In place of `address_space.rs` where the simulator does not run: no value of the type exists.

use std::io;
use std::ops::Range;

pub(crate) const PAGE: usize = 4096;

pub(crate) fn system_page() -> usize {
    PAGE
}

/// Of `system_memory.rs`.
pub(super) fn ask(_: &Range<usize>, _: impl FnMut(Range<usize>, bool)) -> bool {
    false
}

/// Of `system_memory.rs`.
pub(super) fn make(_: &Range<usize>) -> bool {
    false
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HostAccess {
    None,
    Read,
    ReadWrite,
}

pub(crate) enum AddressSpace {}

impl AddressSpace {
    pub(crate) fn new() -> io::Result<AddressSpace> {
        let reason = "the simulator runs only on Linux: it sees the host's touches of managed memory through memfd, mprotect and SIGSEGV";
        Err(io::Error::new(io::ErrorKind::Unsupported, reason))
    }

    pub(crate) fn grow(&self, _bytes: usize) -> io::Result<Range<usize>> {
        match *self {}
    }

    pub(crate) fn len(&self) -> usize {
        match *self {}
    }

    pub(crate) fn contains(&self, _address: usize) -> bool {
        match *self {}
    }

    pub(crate) fn device_address(&self, _address: usize) -> usize {
        match *self {}
    }

    pub(crate) fn protect(&self, _range: Range<usize>, _access: HostAccess) -> bool {
        match *self {}
    }

    pub(crate) fn discard(&self, _range: Range<usize>) -> bool {
        match *self {}
    }

    pub(crate) fn zero_pages(&self, _range: Range<usize>) -> Option<Range<usize>> {
        match *self {}
    }

    pub(crate) fn poison(&self, _range: Range<usize>) {
        match *self {}
    }
}
