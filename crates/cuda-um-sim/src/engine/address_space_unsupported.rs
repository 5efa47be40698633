//! In place of `address_space.rs` where the simulator does not run: no value of the type exists.

use std::io;
use std::ops::Range;

pub(crate) const PAGE: usize = 4096;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HostAccess {
    None,
    Read,
    ReadWrite,
}

pub(crate) enum AddressSpace {}

impl AddressSpace {
    pub(crate) fn reserve(_len: usize) -> io::Result<AddressSpace> {
        let reason = "the simulator runs only on Linux: it sees the host's touches of managed memory through memfd, mprotect and SIGSEGV";
        Err(io::Error::new(io::ErrorKind::Unsupported, reason))
    }

    pub(crate) fn base(&self) -> usize {
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
