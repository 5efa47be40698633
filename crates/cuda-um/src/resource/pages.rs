//! Pinned memory, which is made of the system's huge pages if it is large.
//!
//! `cudaHostAlloc` takes 0.45 to 0.7 ms for each MiB, and several threads at once do not help. Huge pages that several threads touch, and that
//! are then registered, take a seventh of it: 26 ms for 256 MiB on an H200's host, in place of 181; the free takes 4 ms in place of 33.
#![allow(unsafe_code, reason = "maps, registers and frees memory")]

use crate::driver::Api;
use crate::error::Result;
use std::ptr::NonNull;

/// The size in bytes from which the memory is made of huge pages.
const FROM: usize = 4 << 20;

/// Pinned memory that all devices may use. [`free`](Self::free) frees it, and a drop does not.
#[derive(Clone, Debug)]
pub(crate) struct PinnedPages {
    pub(crate) address: NonNull<u8>,
    /// The size of the registered mapping; `None` for memory of `cudaHostAlloc`.
    mapped_bytes: Option<usize>,
}

// SAFETY: an address, which only its owner uses.
unsafe impl Send for PinnedPages {}
// SAFETY: as above.
unsafe impl Sync for PinnedPages {}

impl PinnedPages {
    /// Allocates `bytes`. Kernels reach the memory if it is `mapped`. `registers` says whether the device supports registered memory.
    ///
    /// # Errors
    ///
    /// Those of `cudaHostAlloc`, which also allocates what the system cannot map and what CUDA does not register; a sticky error of
    /// `cudaHostRegister`.
    pub(crate) fn allocate(
        api: &Api,
        ordinal: u32,
        bytes: usize,
        (mapped, registers): (bool, bool),
    ) -> Result<Self> {
        if registers
            && bytes >= FROM
            && let Some((address, mapped_bytes)) = system::map(bytes)
        {
            let pages = Self {
                address,
                mapped_bytes: Some(mapped_bytes),
            };
            // SAFETY: the new mapping is as large, and is unregistered before it is unmapped.
            match unsafe { api.host_register(ordinal, address, bytes, mapped) } {
                Ok(()) => return Ok(pages),
                Err(error) => {
                    // CUDA may report a failure of earlier work although the call succeeded, so this unregisters as well.
                    // SAFETY: nothing uses the new memory.
                    let _ = unsafe { pages.free(api, ordinal) };
                    if error.is_sticky() {
                        return Err(error);
                    }
                    crate::telemetry::debug!(%error, "huge pages are not registered: cudaHostAlloc allocates");
                }
            }
        }
        Ok(Self {
            address: api.host_alloc(ordinal, bytes, mapped)?,
            mapped_bytes: None,
        })
    }

    /// Frees the memory. After an error it is leaked.
    ///
    /// # Safety
    ///
    /// Nothing uses the memory, and it is freed once.
    pub(crate) unsafe fn free(&self, api: &Api, ordinal: u32) -> Result<()> {
        // SAFETY: guaranteed by the caller.
        unsafe {
            match self.mapped_bytes {
                None => api.free_host(ordinal, self.address),
                Some(bytes) => {
                    api.host_unregister(ordinal, self.address)?;
                    system::unmap(self.address, bytes);
                    Ok(())
                }
            }
        }
    }
}

#[cfg(all(target_os = "linux", not(miri)))]
mod system {
    use crate::sync::cores;
    use std::fs::read_to_string;
    use std::ptr::NonNull;
    use std::sync::atomic::{AtomicU8, Ordering};
    use std::thread;

    const HUGE: usize = 2 << 20;
    /// The smallest page.
    const PAGE: usize = 4096;
    /// More threads do not touch pages faster.
    const MOST_THREADS: usize = 8;

    /// Maps `bytes` of zeros that begin at a huge page, and returns the size of the mapping. A child made by `fork` does not have them: a copy on
    /// write would move the parent's pages away from the device.
    pub(super) fn map(bytes: usize) -> Option<(NonNull<u8>, usize)> {
        let mapped_bytes = bytes.checked_next_multiple_of(HUGE)?;
        // Pages beyond what is free would end the process, in place of an error.
        if room() / 2 < mapped_bytes {
            return None;
        }
        // SAFETY: a new anonymous mapping; what is unmapped lies within it, before and after the huge pages.
        let address = unsafe {
            let whole = libc::mmap(
                std::ptr::null_mut(),
                mapped_bytes.checked_add(HUGE)?,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            if whole == libc::MAP_FAILED {
                return None;
            }
            let head = whole.addr().next_multiple_of(HUGE) - whole.addr();
            let first = whole.byte_add(head);
            for (address, bytes) in [(whole, head), (first.byte_add(mapped_bytes), HUGE - head)] {
                if bytes > 0 {
                    libc::munmap(address, bytes);
                }
            }
            // Without huge pages it is still faster than `cudaHostAlloc`.
            libc::madvise(first, mapped_bytes, libc::MADV_HUGEPAGE);
            libc::madvise(first, mapped_bytes, libc::MADV_DONTFORK);
            NonNull::new(first.cast::<u8>())?
        };
        // SAFETY: memory of the new mapping, which only this function uses.
        touch(unsafe { std::slice::from_raw_parts(address.as_ptr().cast(), bytes) });
        Some((address, mapped_bytes))
    }

    /// # Safety
    ///
    /// The mapping is from [`map`], and nothing uses it.
    pub(super) unsafe fn unmap(address: NonNull<u8>, mapped_bytes: usize) {
        // SAFETY: guaranteed by the caller.
        unsafe { libc::munmap(address.as_ptr().cast(), mapped_bytes) };
    }

    /// Writes to each page, so that the registration finds them all.
    fn touch(memory: &[AtomicU8]) {
        let threads = cores().min(MOST_THREADS).min(memory.len() / (2 * HUGE));
        let part = memory.len().div_ceil(threads.max(1)).next_multiple_of(HUGE);
        let touch = |part: &[AtomicU8]| {
            let pages = part.iter().step_by(PAGE);
            pages.for_each(|byte| byte.store(0, Ordering::Relaxed));
        };
        thread::scope(|scope| {
            let mut parts = memory.chunks(part);
            let own = parts.next();
            for part in parts {
                let thread = thread::Builder::new().name("cuda-um-pages".to_owned());
                // The registration also touches the pages of a thread that the system refuses.
                let _ = thread.spawn_scoped(scope, move || touch(part));
            }
            own.map(touch);
        });
    }

    /// The bytes that this process may still use, as the system and its control group say.
    fn room() -> usize {
        let number = |text: &str| text.trim().parse::<usize>().ok();
        let available = || {
            let all = read_to_string("/proc/meminfo").ok()?;
            let line = all
                .lines()
                .find_map(|line| line.strip_prefix("MemAvailable:"))?;
            Some(number(line.trim_end_matches("kB"))? << 10)
        };
        let of_group = || {
            let file = |name| number(&read_to_string(format!("/sys/fs/cgroup/{name}")).ok()?);
            Some(file("memory.max")?.saturating_sub(file("memory.current")?))
        };
        available()
            .unwrap_or(0)
            .min(of_group().unwrap_or(usize::MAX))
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
mod system {
    use std::ptr::NonNull;

    pub(super) fn map(_: usize) -> Option<(NonNull<u8>, usize)> {
        None
    }

    pub(super) unsafe fn unmap(_: NonNull<u8>, _: usize) {}
}
