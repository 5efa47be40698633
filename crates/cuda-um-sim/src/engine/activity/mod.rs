//! Activity: records of migrations, page faults and kernels, for a client of CUPTI.
//!
//! Until a kind of record is enabled, nothing is recorded and nothing is allocated. CUPTI's layouts are not part of this module:
//! `entry::records` writes them.

mod schedule;

pub(crate) use schedule::Service;

use std::ops::Range;
use std::time::Duration;

use super::address_space::PAGE;
use super::managed::{Processor, Processors, source};

/// The most records that wait for delivery; further ones are dropped and counted.
const MOST_PENDING: usize = 1 << 20;

/// The reason for which pages migrate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Cause {
    /// A call of the program: prefetch.
    User,
    /// A touch.
    #[default]
    Coherence,
    /// A touch of pages near them: the density rule.
    Density,
    /// Other pages needed the memory.
    Eviction,
}

/// The reason for which memory is mapped over the link and does not migrate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MapCause {
    Coherence,
    Policy,
    OutOfMemory,
}

/// The kind of a record, with its own values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum What {
    Transfer {
        from: Processor,
        to: Processor,
        bytes: u64,
        cause: Cause,
    },
    CpuFault,
    /// A group of faults that is served together.
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

/// The records that wait for delivery, and the kinds of records that are collected.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    /// Whether records of managed memory are collected.
    pub(crate) memory: bool,
    /// Whether records of kernels are collected.
    pub(crate) kernels: bool,
    /// The start of the current work on the virtual clock.
    pub(crate) now: Duration,
    /// The reason for which the current work migrates pages.
    pub(crate) cause: Cause,
    pending: Vec<Record>,
    dropped: u64,
    /// Positions of the records of groups of faults with which the faults of the next block may be served.
    groups: Vec<usize>,
    launches: u32,
}

impl Activity {
    /// The number of records that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.pending.len()
    }

    pub(crate) fn take(&mut self) -> Vec<Record> {
        std::mem::take(&mut self.pending)
    }

    /// Counts records for which the client had no room.
    pub(crate) fn drop_records(&mut self, count: u64) {
        self.dropped += count;
    }

    /// The number of records that were dropped since the last call.
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

    /// Records that pages migrate. `serve` and `transfers_end` set the times.
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
        let from = source(from, to);
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

    /// Records that pages are mapped over the link.
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

    /// Counts a launch; returns its number, in the order of the calls.
    pub(crate) fn launched(&mut self) -> u32 {
        self.launches = self.launches.wrapping_add(1);
        self.launches
    }

    /// Records that a kernel ran.
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

/// A copy of a kernel's name that is never freed, because records hold its address. There is one for each kernel.
fn intern(name: &str) -> &'static std::ffi::CStr {
    use std::collections::HashMap;
    use std::ffi::{CStr, CString};
    use std::sync::LazyLock;
    static NAMES: LazyLock<cuda_um_sys::locks::Mutex<HashMap<String, &'static CStr>>> =
        LazyLock::new(cuda_um_sys::locks::Mutex::default);
    let mut names = NAMES.lock();
    if let Some(known) = names.get(name) {
        return known;
    }
    let leaked: &'static CStr =
        Box::leak(CString::new(name).unwrap_or_default().into_boxed_c_str());
    names.insert(name.to_owned(), leaked);
    leaked
}
