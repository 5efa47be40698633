//! A place named by a caller: for advice and prefetch.

use super::managed::{HOST, Processor};

/// A location as callers name it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// Host memory.
    Host,
    /// Host memory of one NUMA node.
    HostNuma(i32),
    /// A device.
    Device(usize),
}

impl Place {
    /// Where memory is resident that lives there.
    pub(crate) fn processor(self) -> Processor {
        match self {
            Place::Host | Place::HostNuma(_) => HOST,
            Place::Device(ordinal) => Processor::device(ordinal),
        }
    }
}
