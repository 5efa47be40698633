//! Activity: what the driver did to managed memory and which kernels ran, one record each, while somebody collects them.
//!
//! Nothing is recorded, and nothing allocated, until a kind is enabled. It does not know of CUPTI's layouts: `entry::cupti` writes those.

mod schedule;

pub(crate) use schedule::Service;

use std::ops::Range;
use std::time::Duration;

use super::address_space::PAGE;
use super::managed::{HOST, Processor, Processors};

/// Records that wait to be delivered; more are dropped, and counted.
const MOST_PENDING: usize = 1 << 20;

/// Why pages move.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Cause {
    /// A call of the program: prefetch.
    User,
    /// A touch.
    #[default]
    Coherence,
    /// They lie around a touch: the density rule.
    Density,
    /// Room was needed.
    Eviction,
}

/// Why memory is reached where it lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MapCause {
    Coherence,
    Policy,
    OutOfMemory,
}

/// What happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum What {
    Transfer {
        from: Processor,
        to: Processor,
        bytes: u64,
        cause: Cause,
    },
    CpuFault,
    /// A group of faults that is served as one.
    GpuFaults {
        device: usize,
        faults: u32,
        write: bool,
    },
    RemoteMap {
        by: Processor,
        at: Processor,
        bytes: u64,
        cause: MapCause,
    },
    Kernel {
        name: &'static std::ffi::CStr,
        device: usize,
        stream: usize,
        number: u32,
    },
}

impl What {
    /// Whether pages moved to make room.
    fn is_eviction(&self) -> bool {
        matches!(self, What::Transfer { cause, .. } if *cause == Cause::Eviction)
    }
}

/// A record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Record {
    pub(crate) what: What,
    pub(crate) address: usize,
    pub(crate) start: Duration,
    pub(crate) end: Duration,
}

/// What is collected, and what was collected and not delivered yet.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    /// Records of managed memory are collected.
    pub(crate) memory: bool,
    /// Records of kernels are.
    pub(crate) kernels: bool,
    /// When what is being done now begins on the virtual clock.
    pub(crate) now: Duration,
    /// Why pages move now.
    pub(crate) cause: Cause,
    pending: Vec<Record>,
    dropped: u64,
    /// The records of the groups of faults that blocks share now.
    groups: Vec<usize>,
    launches: u32,
}

impl Activity {
    /// Records that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.pending.len()
    }

    pub(crate) fn take(&mut self) -> Vec<Record> {
        std::mem::take(&mut self.pending)
    }

    /// Counts records that nobody had room for.
    pub(crate) fn drop_records(&mut self, count: u64) {
        self.dropped += count;
    }

    /// How many were dropped since the last time that this was asked.
    pub(crate) fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }

    fn push(&mut self, what: What, address: usize, start: Duration, end: Duration) {
        if self.pending.len() >= MOST_PENDING {
            self.dropped += 1;
            return;
        }
        self.pending.push(Record {
            what,
            address,
            start,
            end,
        });
    }

    /// Pages move. They have no times yet: `serve` and `transfers_end` give them some.
    pub(crate) fn transfer(
        &mut self,
        from: Processors,
        to: Processor,
        base: usize,
        pages: &Range<usize>,
    ) {
        if !self.memory {
            return;
        }
        let from = if to != HOST && from.contains(HOST) {
            HOST
        } else {
            from.device_first().unwrap_or(HOST)
        };
        let bytes = (pages.len() * PAGE) as u64;
        let (cause, now) = (self.cause, self.now);
        let what = What::Transfer {
            from,
            to,
            bytes,
            cause,
        };
        self.push(what, base + pages.start * PAGE, now, now);
    }

    /// Pages are mapped where they lie.
    pub(crate) fn remote_map(
        &mut self,
        by: Processor,
        at: Processor,
        cause: MapCause,
        base: usize,
        pages: &Range<usize>,
    ) {
        if !self.memory {
            return;
        }
        let (bytes, now) = ((pages.len() * PAGE) as u64, self.now);
        let what = What::RemoteMap {
            by,
            at,
            bytes,
            cause,
        };
        self.push(what, base + pages.start * PAGE, now, now);
    }

    /// A kernel was launched: its number, in the order of the calls.
    pub(crate) fn launched(&mut self) -> u32 {
        self.launches = self.launches.wrapping_add(1);
        self.launches
    }

    /// A kernel ran.
    pub(crate) fn kernel(
        &mut self,
        name: &str,
        (device, stream, number): (usize, usize, u32),
        start: Duration,
        end: Duration,
    ) {
        if self.kernels {
            let name = intern(name);
            let what = What::Kernel {
                name,
                device,
                stream,
                number,
            };
            self.push(what, 0, start, end);
        }
    }
}

/// A name that lives as long as the process, for records hold its address. There are as many as kernels.
fn intern(name: &str) -> &'static std::ffi::CStr {
    use std::collections::HashMap;
    use std::ffi::{CStr, CString};
    use std::sync::LazyLock;
    static NAMES: LazyLock<parking_lot::Mutex<HashMap<String, &'static CStr>>> =
        LazyLock::new(parking_lot::Mutex::default);
    let mut names = NAMES.lock();
    if let Some(known) = names.get(name) {
        return known;
    }
    let leaked: &'static CStr =
        Box::leak(CString::new(name).unwrap_or_default().into_boxed_c_str());
    names.insert(name.to_owned(), leaked);
    leaked
}
