//! A buffer as its arena knows it: where its memory is ([`Residence`]), and whether it has newer contents than the home.
//!
//! ```text
//!           a step that reads                  a guard writes, or a file is read
//!        ┌──────────────────────▶ Here ◀───────────────────────────┐
//!      Away ◀──── evicted ────────┘ ▲                              ▼
//!       ▲│                          │ zeros                      Taken
//!       │└── a step that writes ─▶ Blank ───── a guard writes ─────▲
//!       └─────── evicted ───────────┘
//! ```
//!
//! Contents are dirty from the write of a guard until they are written back; only those of a buffer that is `Here` or `Taken` are.

use std::cmp::Reverse;
use std::ops::Range;
use std::sync::Arc;

use um_backend::cuda_um::{DeviceBuffer, resource::DeviceArena};

use crate::access::{Access, Role};
use crate::home::SharedHome;
use crate::place::Urgency;

pub(crate) struct Entry {
    pub(crate) name: Arc<str>,
    pub(crate) bytes: usize,
    pub(crate) role: Role,
    pub(crate) home: SharedHome,
    /// Whether a transfer from or to the home needs the calling thread.
    pub(crate) in_file: bool,
    pub(crate) memory: Residence,
    /// The first slot, unless the buffer is away.
    pub(crate) first: usize,
    /// The arena has newer contents than the home.
    pub(crate) is_dirty: bool,
    /// The guards that read, and a write back without the lock.
    pub(crate) readers: usize,
    /// The transfers and the accesses of the host that use the home without the lock. They end without waiting for guards.
    pub(crate) pins: usize,
    /// The buffer was dropped, and the last pin removes it.
    pub(crate) is_dropped: bool,
    /// The number of the last use.
    pub(crate) used: u64,
    /// The next use in the order that the arena follows.
    pub(crate) due: Option<Due>,
}

/// Where the device memory of a buffer is.
pub(crate) enum Residence {
    /// There is none.
    Away,
    /// Slots for a step that writes all: they do not have the contents.
    Blank(Memory),
    /// It has the contents.
    Here(Memory),
    /// A guard that writes has it, or a transfer without the lock.
    Taken,
}

/// The memory that kernels use. A guard that writes has the only handle.
pub(crate) type Memory = Arc<DeviceBuffer<u8>>;

/// A use that comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    /// The number of the set.
    pub(crate) at: u64,
    /// The buffer stays in the arena until then.
    pub(crate) stays: bool,
}

impl Entry {
    pub(crate) fn slot_count(&self) -> usize {
        self.bytes.div_ceil(DeviceArena::SLOT_BYTES)
    }

    pub(crate) fn slots(&self) -> Range<usize> {
        self.first..self.first + self.slot_count()
    }

    pub(crate) fn is_away(&self) -> bool {
        matches!(self.memory, Residence::Away)
    }

    /// Whether a guard or a transfer without the lock has the memory.
    pub(crate) fn is_held(&self) -> bool {
        self.readers > 0 || matches!(self.memory, Residence::Taken)
    }

    /// Whether the buffer cannot leave the arena, or come into it, now.
    pub(crate) fn stays(&self) -> bool {
        self.is_held() || self.pins > 0
    }

    /// Whether a thread must write the file before the buffer can leave.
    pub(crate) fn needs_flush(&self) -> bool {
        self.in_file && self.is_dirty && matches!(self.memory, Residence::Here(_)) && !self.stays()
    }

    /// Whether the arena has slots of the buffer, and not the contents that this access needs.
    fn lacks(&self, access: Access) -> bool {
        access != Access::Write && matches!(self.memory, Residence::Blank(_))
    }

    /// Whether the buffer must leave, and come back with its contents, for this access.
    pub(crate) fn must_return(&self, access: Access) -> bool {
        self.lacks(access) && !self.stays()
    }

    /// Whether a guard with this access must wait for another one, or for the host.
    pub(crate) fn is_busy_for(&self, access: Access) -> bool {
        let is_busy = match access {
            Access::Read => matches!(self.memory, Residence::Taken),
            Access::Write | Access::ReadWrite => self.is_held(),
        };
        is_busy || self.lacks(access)
    }

    /// How soon the buffer is needed; `None` if it cannot leave.
    pub(crate) fn urgency(&self) -> Option<Urgency> {
        if self.stays() {
            return None;
        }
        Some(match self.due {
            Some(Due { at, stays: true }) => Urgency::Stays(Reverse(at)),
            Some(Due { at, stays: false }) => Urgency::Leaves(Reverse(at)),
            None => Urgency::Used(self.used),
        })
    }
}
