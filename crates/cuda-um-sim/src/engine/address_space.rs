//! The memory itself: one memory file, mapped twice.
//!
//! Pointers that callers get are addresses of the host view; its pages are inaccessible while the host may not touch them. The device view
//! is always readable and writable; copies and kernels use it, so the simulator never faults on its own memory.
//!
//! The views grow by segments, each as large as all before it: a reservation of addresses costs nothing on Linux, but memory for each page
//! in qemu-user, and ThreadSanitizer leaves a process 8 TiB in all.
// Memory is mapped, protected and punched by system calls.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::foreign::event;

/// Bytes of a page, the unit in which residency is counted. The system's pages may be larger: Arm has pages of 16 and 64 KiB, too.
pub(crate) const PAGE: usize = 4096;

/// Bytes of a page of the system, a multiple of [`PAGE`].
pub(crate) fn system_page() -> usize {
    // SAFETY: the call has no preconditions.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).unwrap_or(PAGE).max(PAGE)
}

/// The addresses of the pages of `page` bytes that hold a range.
fn whole_pages(range: &Range<usize>, page: usize) -> Range<usize> {
    range.start / page * page..range.end.next_multiple_of(page)
}

/// The views begin at multiples of this: the driver moves managed memory by blocks of that size.
const ALIGN: usize = 2 << 20;

/// The pattern of undefined memory: a large finite number in every format of floating point, because a NaN passes a test like
/// `!((a - b).abs() > limit)`.
static POISON: [u8; 64 << 10] = [0x7b; 64 << 10];
/// The largest range that is filled with it.
const POISONED_UP_TO: usize = 1 << 20;

/// The smallest range of whole pages that is given back instead of set to zero.
const GIVEN_BACK_FROM: usize = 64 << 10;

/// The host's access to a page of its view.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HostAccess {
    /// Any touch faults.
    None,
    /// A write faults.
    Read,
    /// Nothing faults.
    ReadWrite,
}

/// Bytes of the first segment.
const FIRST: usize = 256 << 20;
/// The most bytes of all segments: several times the memory of the largest machine.
const MOST: usize = 1 << 40;
/// Enough for [`MOST`].
const SEGMENTS: usize = 32;

/// The host views of all simulators that there were are in this range.
// Relaxed: the range only grows, and it does before an address of the new segment is given to the program; what brings the address to another thread
// (or to a child) orders the change before that thread's load.
static LOWEST: AtomicUsize = AtomicUsize::new(usize::MAX);
static HIGHEST: AtomicUsize = AtomicUsize::new(0);

/// False if no host view of this process ever had the address.
pub(crate) fn may_be_simulated(address: usize) -> bool {
    address >= LOWEST.load(Ordering::Relaxed) && address < HIGHEST.load(Ordering::Relaxed)
}

/// A part of the file, and where it is in both views.
#[derive(Clone, Debug)]
struct Segment {
    host: Range<usize>,
    device: usize,
    offset: usize,
}

/// The two views of one memory file.
pub(crate) struct AddressSpace {
    file: File,
    /// They are set in order.
    segments: [OnceLock<Segment>; SEGMENTS],
}

impl AddressSpace {
    /// A file without segments.
    pub(crate) fn new() -> io::Result<AddressSpace> {
        // SAFETY: the name is a NUL-terminated literal; the call has no other precondition.
        let raw = unsafe { libc::memfd_create(c"cuda-um-sim".as_ptr(), libc::MFD_CLOEXEC) };
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `raw` is a descriptor that was just opened and has no other owner.
        let file = unsafe { File::from_raw_fd(raw) };
        let segments = [const { OnceLock::new() }; SEGMENTS];
        Ok(AddressSpace { file, segments })
    }

    /// Maps a further segment, for at least `bytes` bytes; returns its addresses in the host view, which touch those of no other segment.
    /// Memory is committed page by page when it is first written. Only one thread at a time grows the views.
    pub(crate) fn grow(&self, bytes: usize) -> io::Result<Range<usize>> {
        let full = || io::Error::from(io::ErrorKind::OutOfMemory);
        let offset = self.len();
        let wanted = bytes.checked_next_multiple_of(ALIGN).ok_or_else(full)?;
        let left = MOST.saturating_sub(offset);
        let len = wanted.max(offset).max(FIRST).min(left);
        let next = self.segments.iter().find(|segment| segment.get().is_none());
        let next = next.filter(|_| wanted <= left).ok_or_else(full)?;
        self.file.set_len((offset + len) as u64)?;
        let host = map(&self.file, offset, len, libc::PROT_NONE)?;
        let device = match map(&self.file, offset, len, libc::PROT_READ | libc::PROT_WRITE) {
            Ok(device) => device,
            Err(error) => {
                unmap(host, len);
                return Err(error);
            }
        };
        let host = host..host + len;
        LOWEST.fetch_min(host.start, Ordering::Relaxed);
        HIGHEST.fetch_max(host.end, Ordering::Relaxed);
        let segment = Segment {
            host: host.clone(),
            device,
            offset,
        };
        next.set(segment).map_err(|_| full())?;
        Ok(host)
    }

    /// Bytes of each view.
    pub(crate) fn len(&self) -> usize {
        let bytes = self.segments().map(|segment| segment.host.len());
        bytes.sum()
    }

    fn segments(&self) -> impl Iterator<Item = &Segment> {
        self.segments.iter().map_while(OnceLock::get)
    }

    /// The segment whose host view has an address.
    fn segment(&self, address: usize) -> Option<&Segment> {
        self.segments()
            .find(|segment| segment.host.contains(&address))
    }

    /// Whether `range` is in the host view of one segment.
    fn holds(&self, range: &Range<usize>) -> bool {
        let segment = self.segment(range.start);
        segment.is_some_and(|segment| range.end <= segment.host.end)
    }

    /// Whether the host view holds this address.
    pub(crate) fn contains(&self, address: usize) -> bool {
        self.segment(address).is_some()
    }

    /// The device view of a host-view address.
    pub(crate) fn device_address(&self, address: usize) -> usize {
        let segment = self.segment(address);
        segment.map_or(address, |segment| {
            address - segment.host.start + segment.device
        })
    }

    /// The place of a host-view address in the file.
    fn offset(&self, address: usize) -> usize {
        let segment = self.segment(address);
        segment.map_or(MOST, |segment| {
            address - segment.host.start + segment.offset
        })
    }

    /// Sets the host's access to the pages of `range` (page-aligned addresses of the host view), and to all of the system's pages that hold
    /// them: a touch of the rest sets its access again.
    ///
    /// The kernel limits the number of differently protected pieces of a process (`vm.max_map_count`). Beyond the limit it refuses the
    /// change, and the access stays as it was; the result is then `false`.
    pub(crate) fn protect(&self, range: Range<usize>, access: HostAccess) -> bool {
        debug_assert!(range.start.is_multiple_of(PAGE) && range.end.is_multiple_of(PAGE));
        debug_assert!(self.holds(&range));
        let range = whole_pages(&range, system_page());
        let protection = match access {
            HostAccess::None => libc::PROT_NONE,
            HostAccess::Read => libc::PROT_READ,
            HostAccess::ReadWrite => libc::PROT_READ | libc::PROT_WRITE,
        };
        // SAFETY: the range lies inside the host view, which this value owns. Taking access away makes later touches
        // fault, which the handler resolves.
        let result =
            unsafe { libc::mprotect(range.start as *mut libc::c_void, range.len(), protection) };
        if result != 0 {
            let error = io::Error::last_os_error();
            event(
                move || tracing::error!(%error, "mprotect of the host view failed; touches there are not seen"),
            );
        }
        result == 0
    }

    /// Gives the memory of `range` (page-aligned) back; it reads as zero afterwards. False if that failed.
    pub(crate) fn discard(&self, range: Range<usize>) -> bool {
        debug_assert!(self.holds(&range));
        let offset = self.offset(range.start) as libc::off_t;
        // SAFETY: the descriptor is open, and the range lies inside the file. Both views of it read zero afterwards;
        // callers discard only memory that is free, declared undefined, or to be set to zero.
        let result = unsafe {
            libc::fallocate(
                self.file.as_raw_fd(),
                libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE,
                offset,
                range.len() as libc::off_t,
            )
        };
        if result != 0 {
            let error = io::Error::last_os_error();
            event(move || tracing::error!(%error, "giving simulated memory back failed"));
        }
        result == 0
    }

    /// Sets the whole pages of `range` to zero, if they are so many that giving their memory back takes less time than writing it.
    /// Returns the pages that are zero now.
    pub(crate) fn zero_pages(&self, range: Range<usize>) -> Option<Range<usize>> {
        let pages = range.start.next_multiple_of(PAGE)..range.end / PAGE * PAGE;
        let is_large = self.contains(range.start) && pages.len() >= GIVEN_BACK_FROM;
        (is_large && self.discard(pages.clone())).then_some(pages)
    }

    /// Fills `range`, whose contents are undefined, with a pattern, so that a program does not take it for zeroed. A large range stays
    /// as it is.
    pub(crate) fn poison(&self, range: Range<usize>) {
        if range.len() <= POISONED_UP_TO
            && let Err(error) = self.write_poison(range)
        {
            event(move || tracing::error!(%error, "marking undefined memory failed"));
        }
    }

    /// Writes the pattern to the file: a store through a view would fault once for each page, which takes twice as long.
    fn write_poison(&self, range: Range<usize>) -> io::Result<()> {
        debug_assert!(self.holds(&range));
        let mut at = self.offset(range.start) as u64;
        let end = at + range.len() as u64;
        while at < end {
            let piece = &POISON[..POISON.len().min((end - at) as usize)];
            self.file.write_all_at(piece, at)?;
            at += piece.len() as u64;
        }
        Ok(())
    }
}

impl Drop for AddressSpace {
    fn drop(&mut self) {
        for segment in self.segments() {
            unmap(segment.host.start, segment.host.len());
            unmap(segment.device, segment.host.len());
        }
    }
}

/// Maps a part of the file at a multiple of [`ALIGN`].
fn map(file: &File, offset: usize, len: usize, protection: i32) -> io::Result<usize> {
    let mmap = |at: usize, len, protection, flags, file, offset: usize| {
        // SAFETY: without MAP_FIXED, a fresh mapping disturbs no memory of this process; with it (below), it replaces one that this
        // function has just made.
        let address = unsafe {
            libc::mmap(
                at as *mut libc::c_void,
                len,
                protection,
                flags | libc::MAP_NORESERVE,
                file,
                offset as libc::off_t,
            )
        };
        match address {
            libc::MAP_FAILED => Err(io::Error::last_os_error()),
            address => Ok(address as usize),
        }
    };
    let anonymous = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let reserved = mmap(0, len + ALIGN, libc::PROT_NONE, anonymous, -1, 0)?;
    let address = reserved.next_multiple_of(ALIGN);
    for (start, end) in [(reserved, address), (address + len, reserved + len + ALIGN)] {
        if start < end {
            unmap(start, end - start);
        }
    }
    let fixed = libc::MAP_SHARED | libc::MAP_FIXED;
    if let Err(error) = mmap(address, len, protection, fixed, file.as_raw_fd(), offset) {
        unmap(address, len);
        return Err(error);
    }
    // As with the real driver, a child of fork does not inherit managed memory. A core dump need not hold it.
    for advice in [libc::MADV_DONTFORK, libc::MADV_DONTDUMP] {
        // SAFETY: the range was mapped just now; neither advice changes its contents.
        let _ = unsafe { libc::madvise(address as *mut libc::c_void, len, advice) };
    }
    Ok(address)
}

fn unmap(address: usize, len: usize) {
    // SAFETY: the range was mapped by `map`, nothing uses it, and it is unmapped once.
    let _ = unsafe { libc::munmap(address as *mut libc::c_void, len) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Address sanitizer leaves the kernel no such address to choose.
    #[test]
    fn views_begin_at_blocks_wherever_the_kernel_maps() {
        let space = AddressSpace::new().unwrap();
        for bytes in [PAGE, FIRST + PAGE, ALIGN + PAGE] {
            let base = space.grow(bytes).unwrap().start;
            assert!(base.is_multiple_of(ALIGN));
            assert!(space.device_address(base).is_multiple_of(ALIGN));
        }
    }

    #[test]
    fn each_segment_doubles_the_views_until_they_are_full() {
        let space = AddressSpace::new().unwrap();
        let mut pages = Vec::new();
        for _ in 0..4 {
            let segment = space.grow(PAGE).unwrap();
            pages.push(segment.end - PAGE..segment.end);
        }
        assert_eq!(space.len(), 8 * FIRST);
        // Each page has a place of its own.
        for (number, page) in (1u8..).zip(&pages) {
            // SAFETY: the device view of a page that nothing else uses.
            unsafe { (space.device_address(page.start) as *mut u8).write(number) };
        }
        for (number, page) in (1u8..).zip(pages) {
            assert!(space.protect(page.clone(), HostAccess::Read));
            // SAFETY: the page is readable now.
            assert_eq!(unsafe { *(page.start as *const u8) }, number);
        }
        assert!(space.grow(MOST).is_err());
    }

    #[test]
    fn a_page_of_the_system_may_hold_several() {
        let part = 5 * PAGE..17 * PAGE;
        assert_eq!(whole_pages(&part, PAGE), part);
        assert_eq!(whole_pages(&part, 16 * PAGE), 0..32 * PAGE);
    }

    #[test]
    fn both_views_show_the_same_bytes() {
        let space = AddressSpace::new().unwrap();
        let page = space.grow(PAGE).unwrap().start + PAGE * 3;
        assert!(space.protect(page..page + PAGE, HostAccess::Read));
        let (host, device) = (page as *const u8, space.device_address(page) as *mut u8);
        // SAFETY: both views of the page are readable now, the device view is writable, and nothing else uses the page.
        unsafe { device.write(0x5a) };
        // SAFETY: as above.
        assert_eq!(unsafe { *host }, 0x5a);
        space.poison(page..page + PAGE);
        // SAFETY: as above.
        assert_eq!(unsafe { (*host, *device) }, (POISON[0], POISON[0]));
        assert!(space.discard(page..page + PAGE));
        // SAFETY: as above.
        assert_eq!(unsafe { *host }, 0);
    }
    #[test]
    fn only_whole_pages_of_large_ranges_are_given_back() {
        let space = AddressSpace::new().unwrap();
        let base = space.grow(PAGE).unwrap().start;
        let (first, last) = (base + PAGE, base + PAGE + GIVEN_BACK_FROM);
        space.poison(base..last + PAGE);
        assert_eq!(space.zero_pages(first..last - 1), None);
        assert_eq!(space.zero_pages(first - 1..last + 1), Some(first..last));
        let byte = |at| space.device_address(at) as *const u8;
        // SAFETY: the device view is readable, and nothing writes it.
        let read = [first - 1, first, last - 1, last].map(|at| unsafe { *byte(at) });
        assert_eq!(read, [POISON[0], 0, 0, POISON[0]]);
    }
}
