//! System memory: memory of the program that was not allocated with CUDA, on devices that access pageable memory.
//!
//! All of it is one sparse [`Managed`], numbered from address 0, whose pages are on the host until a device touches them. The simulator
//! does not protect these pages, so it sees only the host accesses that the library declares. It asks the kernel which pages exist: the
//! first user populates an untouched page, and an unmapped page is forgotten.
// Asks the kernel about pages.
#![allow(unsafe_code)]

use std::ops::Range;

#[cfg(not(target_os = "linux"))]
pub(super) use super::address_space::ask;
#[cfg(not(target_os = "linux"))]
use super::address_space::make;
use super::address_space::{PAGE, system_page};
use super::managed::{HOST, Managed, SYSTEM};
use super::memory::{Memory, Span};
use super::state::State;

/// Pages that one call asks about.
const ASKED: usize = 4096;
/// Pages that one call reads: the most ranges that it takes.
const MADE: usize = 1024;

/// The pages of the program's memory that hold a range: whole pages of the system, in units of [`PAGE`].
pub(super) fn pages_of(address: usize, bytes: usize) -> Range<usize> {
    let page = system_page();
    let end = address.saturating_add(bytes).div_ceil(page);
    let unit = page / PAGE;
    address / page * unit..end.saturating_mul(unit).min(Managed::SYSTEM_PAGES)
}

/// Calls `found` for pages, in pieces that agree, with whether they were ever touched. False if some are not mapped.
#[cfg(target_os = "linux")]
pub(super) fn ask(pages: &Range<usize>, mut found: impl FnMut(Range<usize>, bool)) -> bool {
    let mut answers = [0u8; ASKED];
    for start in pages.clone().step_by(ASKED) {
        let end = pages.end.min(start + ASKED);
        // SAFETY: the call reads no memory of the range, which need not be mapped; a byte for each page fits into the array.
        let result = unsafe {
            libc::mincore(
                (start * PAGE) as *mut libc::c_void,
                (end - start) * PAGE,
                answers.as_mut_ptr(),
            )
        };
        if result != 0 {
            return false;
        }
        // The system's pages may be larger than ours: each has one answer.
        let unit = system_page() / PAGE;
        let answer = |at: usize| answers[(at - start) / unit] & 1 != 0;
        let mut at = start;
        while at < end {
            let touched = answer(at);
            let until = (at..end).find(|next| answer(*next) != touched);
            found(at..until.unwrap_or(end), touched);
            at = until.unwrap_or(end);
        }
    }
    true
}

/// Whether all pages of a range are mapped.
pub(super) fn is_mapped(pages: &Range<usize>) -> bool {
    pages.end < Managed::SYSTEM_PAGES && ask(pages, |_, _| {})
}

/// The mapping that holds an address, and whether it can be written; `None` if it cannot be read.
pub(super) fn mapping(address: usize) -> Option<(Range<usize>, bool)> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let mapped = maps.lines().find_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let number = |text| usize::from_str_radix(text, 16).ok();
        let range = number(start)?..number(end)?;
        range.contains(&address).then_some((range, rest))
    });
    let (range, rights) = mapped.filter(|(_, rights)| rights.starts_with('r'))?;
    Some((range, rights[1..].starts_with('w')))
}

/// Makes pages exist that were never touched, as the kernel's first read does. A system call reads them, because it fails if they cannot
/// be read.
#[cfg(target_os = "linux")]
fn make(pages: &Range<usize>) -> bool {
    use std::io::Read;
    use std::os::fd::AsRawFd;
    let Ok((mut out, into)) = std::io::pipe() else {
        return false;
    };
    let byte = |page: usize| libc::iovec {
        iov_base: (page * PAGE) as *mut libc::c_void,
        iov_len: 1,
    };
    pages.clone().step_by(MADE).all(|start| {
        let bytes: Vec<_> = (start..pages.end.min(start + MADE)).map(byte).collect();
        // SAFETY: the array has so many ranges. Not libc's function, which this crate replaces.
        let written = unsafe {
            libc::syscall(
                libc::SYS_writev,
                into.as_raw_fd(),
                bytes.as_ptr(),
                bytes.len(),
            )
        };
        let all = written == bytes.len() as libc::c_long;
        all && out.read_exact(&mut vec![0; bytes.len()]).is_ok()
    })
}

impl State {
    /// The pages of a range that have a residency: managed memory, and system memory if the devices access it.
    pub(crate) fn pages_in(&self, span: &Span) -> Option<(usize, Range<usize>)> {
        let base = match span.memory {
            Memory::Managed(base) => base,
            Memory::Pageable if self.machine.profile.pageable_memory_access => SYSTEM,
            _ => return None,
        };
        (span.bytes > 0).then(|| (base, self.memory.pages_of(base, span)))
    }

    /// Forgets the state of system memory whose pages do not exist: the caller, their first user, populates them. False if they cannot be
    /// read.
    pub(super) fn forget_untouched(&mut self, pages: &Range<usize>) -> bool {
        let mut fresh = Vec::new();
        ask(pages, |part, touched| {
            if !touched {
                fresh.push(part);
            }
        });
        fresh.into_iter().all(|part| {
            self.uvm().forget(SYSTEM, part.clone());
            make(&part)
        })
    }

    /// Forgets system memory on devices that was unmapped since: its memory is free.
    pub(crate) fn forget_unmapped(&mut self) {
        let on_device = self.managed.system_on_devices();
        let unmapped = on_device.into_iter().flat_map(|pages| {
            let blocks = pages.clone().step_by(ASKED);
            blocks.map(move |start| start..pages.end.min(start + ASKED))
        });
        for pages in unmapped
            .filter(|pages| !is_mapped(pages))
            .collect::<Vec<_>>()
        {
            let unit = system_page() / PAGE;
            let each = pages.step_by(unit).map(|page| page..page + unit);
            for page in each.filter(|page| !is_mapped(page)) {
                self.uvm().forget(SYSTEM, page);
            }
        }
    }

    /// The host accesses a range of system memory, as the program says: pages that are on a device fault and come back, unless the host
    /// reaches them there.
    pub(crate) fn host_access(&mut self, address: usize, bytes: usize, write: bool) {
        let Ok(span) = self.memory.find(address, bytes) else {
            return;
        };
        if let Some((SYSTEM, pages)) = self.pages_in(&span)
            && is_mapped(&pages)
        {
            self.records.activity.now = self.now;
            let price = self.uvm().touch(HOST, SYSTEM, pages, write);
            self.now += price.time;
        }
    }
}
