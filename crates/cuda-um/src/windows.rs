//! The calls of Windows that the library makes.
#![allow(unsafe_code, reason = "calls the system")]

/// `MEMORYSTATUSEX`.
#[repr(C)]
#[derive(Default)]
struct MemoryStatus {
    length: u32,
    load_percent: u32,
    total_physical: u64,
    available_physical: u64,
    others: [u64; 5],
}

#[link(name = "kernel32")]
unsafe extern "system" {
    fn GlobalMemoryStatusEx(status: *mut MemoryStatus) -> i32;
}

/// Available and total bytes of physical memory; zeros if the system does not report them.
pub(crate) fn memory() -> (usize, usize) {
    let mut status = MemoryStatus {
        length: size_of::<MemoryStatus>() as u32,
        ..MemoryStatus::default()
    };
    // SAFETY: the structure is the one that the call fills, and has its size. If the call fails, it leaves the zeros.
    unsafe { GlobalMemoryStatusEx(&mut status) };
    (
        status.available_physical as usize,
        status.total_physical as usize,
    )
}
