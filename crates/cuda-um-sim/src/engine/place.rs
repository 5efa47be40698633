//! Places that callers name, for advice and prefetch.

use super::managed::{HOST, Processor};

/// A location that a caller names.
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
    /// The processor at which memory of this place is resident.
    pub(crate) fn processor(self) -> Processor {
        match self {
            Place::Host | Place::HostNuma(_) => HOST,
            Place::Device(ordinal) => Processor::device(ordinal),
        }
    }
}
