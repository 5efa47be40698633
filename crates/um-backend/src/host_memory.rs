//! Host memory, and its size for errors.

use crate::dtype::Element;
use crate::error::{CudaError, Result};

/// Allocates `len` zeros.
pub(crate) fn zeroed<T: Element>(len: usize) -> Result<Box<[T]>> {
    let element_bytes = size_of::<T>();
    let bytes = len
        .checked_mul(element_bytes)
        .filter(|&bytes| isize::try_from(bytes).is_ok());
    let requested_bytes = bytes.ok_or(cuda_um::Error::TooLarge { len, element_bytes })?;
    bytemuck::allocation::try_zeroed_slice_box(len).map_err(|()| {
        let (free_bytes, total_bytes) = host_memory();
        let subject = format!("host buffer of {len} {}", T::DTYPE);
        CudaError::OutOfMemory {
            subject,
            requested_bytes,
            free_bytes,
            total_bytes,
        }
    })
}

/// Available and total bytes of host memory; 0 if unknown.
fn host_memory() -> (usize, usize) {
    let report = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    (field(&report, "MemAvailable:"), field(&report, "MemTotal:"))
}

/// A line of `/proc/meminfo`: `MemTotal:  1024 kB`.
fn field(report: &str, name: &str) -> usize {
    let line = report.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<usize>().ok());
    kib.unwrap_or(0).saturating_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_lines_of_meminfo() {
        let report = "MemTotal:       16384 kB\nMemFree: 1 kB\nMemAvailable:    512 kB\n";
        assert_eq!(field(report, "MemTotal:"), 16384 * 1024);
        assert_eq!(field(report, "MemAvailable:"), 512 * 1024);
        assert_eq!(field(report, "Other:"), 0);
    }
}
