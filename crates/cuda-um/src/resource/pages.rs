//! Pinned memory, which is made of the system's huge pages if it is large.
//!
//! `cudaHostAlloc` takes 0.45 to 0.7 ms for each MiB. Huge pages that several threads touch, and that are then registered, take a seventh of it:
//! 26 ms for 256 MiB on an H200's host, in place of 181; the free takes 4 ms in place of 33.
#![allow(unsafe_code, reason = "registers and frees memory")]

use crate::driver::{Api, host_memory};
use crate::error::Result;
use crate::sync::cores;
use memmap2::{MmapMut, MmapOptions};
use std::fs::read_to_string;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::{io, thread};

/// The size in bytes from which the memory is made of huge pages.
const FROM: usize = 4 << 20;
const HUGE: usize = 2 << 20;
const PAGE: usize = 4096;
/// More threads do not touch pages faster.
const MOST_THREADS: usize = 8;

/// Pinned memory that all devices may use. [`free`](Self::free) frees it, and a drop does not.
#[derive(Debug)]
pub(crate) struct PinnedPages {
    pub(crate) address: NonNull<u8>,
    /// The registered mapping; `None` for memory of `cudaHostAlloc`.
    mapping: Option<ManuallyDrop<MmapMut>>,
}

// SAFETY: an address, which only its owner uses.
unsafe impl Send for PinnedPages {}
// SAFETY: as above.
unsafe impl Sync for PinnedPages {}

impl PinnedPages {
    /// Allocates `bytes`, by `cudaHostAlloc` what the system cannot map or CUDA does not register. Kernels reach the memory if it is `mapped`.
    pub(crate) fn allocate(
        api: &Api,
        ordinal: u32,
        bytes: usize,
        (mapped, registers): (bool, bool),
    ) -> Result<Self> {
        if registers
            && bytes >= FROM
            && let Some(pages) = Self::touched(bytes)
        {
            // SAFETY: the new mapping is as large, and is unregistered before it is unmapped.
            match unsafe { api.host_register(ordinal, pages.address, bytes, mapped) } {
                Ok(()) => return Ok(pages),
                Err(error) => {
                    // CUDA may report a failure of earlier work although the call succeeded, so this unregisters as well.
                    // SAFETY: nothing uses the new memory.
                    let _ = unsafe { pages.free(api, ordinal) };
                    if error.is_sticky() {
                        return Err(error);
                    }
                }
            }
        }
        Ok(Self {
            address: api.host_alloc(ordinal, bytes, mapped)?,
            mapping: None,
        })
    }

    /// Maps `bytes`, and touches each page, so that the registration finds them all.
    fn touched(bytes: usize) -> Option<Self> {
        // Pages beyond what is free would end the process, in place of an error. Miri and other systems have no such mappings.
        if cfg!(any(miri, not(target_os = "linux"))) || room() / 2 < bytes {
            return None;
        }
        let (start, mut mapping) = map(bytes).ok()?;
        // A child made by `fork` does not have the pages: a copy on write would move the parent's away from the device.
        #[cfg(target_os = "linux")]
        mapping.advise(memmap2::Advice::DontFork).ok()?;
        let threads = cores().min(MOST_THREADS).min(bytes / (2 * HUGE));
        let part = bytes.div_ceil(threads.max(1)).next_multiple_of(HUGE);
        let touch = |part: &mut [u8]| part.iter_mut().step_by(PAGE).for_each(|byte| *byte = 0);
        thread::scope(|scope| {
            let from = start.addr().get() - mapping.as_ptr().addr();
            let mut parts = mapping[from..from + bytes].chunks_mut(part);
            let own = parts.next();
            for part in parts {
                let thread = thread::Builder::new().name("cuda-um-pages".to_owned());
                // The registration also touches the pages of a thread that the system refuses.
                let _ = thread.spawn_scoped(scope, move || touch(part));
            }
            own.map(touch);
        });
        Some(Self {
            address: start,
            mapping: Some(ManuallyDrop::new(mapping)),
        })
    }

    /// Frees the memory. After an error it is leaked.
    ///
    /// # Safety
    ///
    /// Nothing uses the memory, and it is freed once.
    pub(crate) unsafe fn free(&self, api: &Api, ordinal: u32) -> Result<()> {
        // SAFETY: guaranteed by the caller: the mapping is taken once.
        unsafe {
            match &self.mapping {
                None => api.free_host(ordinal, self.address),
                Some(mapping) => {
                    api.host_unregister(ordinal, self.address)?;
                    drop(std::ptr::read(&raw const **mapping));
                    Ok(())
                }
            }
        }
    }
}

/// Maps `bytes` of zeros, which no processor has touched: from 2 MiB on at a multiple of it, in huge pages if the system has some.
pub(crate) fn map(bytes: usize) -> io::Result<(NonNull<u8>, MmapMut)> {
    let is_huge = bytes >= HUGE;
    let spare = if is_huge { HUGE } else { 0 };
    let length = bytes.checked_add(spare);
    let length = length.ok_or(io::ErrorKind::OutOfMemory)?;
    let mut mapping = MmapOptions::new().len(length).map_anon()?;
    // Miri has no `madvise`.
    #[cfg(all(target_os = "linux", not(miri)))]
    if is_huge {
        // The kernel may have no huge pages: only time changes.
        let _ = mapping.advise(memmap2::Advice::HugePage);
    }
    let start = mapping.as_mut_ptr();
    let aligned = start.align_offset(if is_huge { HUGE } else { 1 });
    let start = NonNull::new(start.wrapping_add(aligned));
    Ok((start.expect("a mapping is not at address 0"), mapping))
}

/// The bytes that this process may still use, as the system and its control group say.
fn room() -> usize {
    let of_group = || {
        let file = |name| read_to_string(format!("/sys/fs/cgroup/{name}")).ok();
        let number = |text: String| text.trim().parse::<usize>().ok();
        let most = number(file("memory.max")?)?;
        Some(most.saturating_sub(number(file("memory.current")?)?))
    };
    host_memory().0.min(of_group().unwrap_or(usize::MAX))
}
