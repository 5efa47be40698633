//! Copies that bypass the CPU's caches.
//!
//! A copy engine reads faster from memory than from cache lines that a core has just written: staging 64 MiB on an H200's host took 1.66 ms
//! with such stores and 2.0 ms without (`docs/results/h200-cuda-13.0/staging.md`). A copy that is much larger than the ring is faster through
//! the caches: 256 MiB on an H100's host took 5.7 ms, and 6.4 ms with such stores (`docs/results/h100-cuda-13.0/staging.md`).
#![allow(unsafe_code, reason = "intrinsics of the CPU, on addresses")]

/// The size in bytes from which such copies are faster.
pub(super) const FROM: usize = 1 << 20;
/// The size in bytes from which a copy to the device is faster through the caches again.
pub(super) const TO_DEVICE_BELOW: usize = 128 << 20;

/// Does the same as `std::ptr::copy_nonoverlapping`, with stores that bypass the caches if the CPU supports them.
///
/// # Safety
///
/// Both ranges are valid for `bytes`, and do not overlap.
pub(super) unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx512f") {
        // SAFETY: the CPU has the instructions; the caller promises the rest.
        return unsafe { x86::copy(from, to, bytes) };
    }
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{__m512i, _mm_sfence, _mm512_loadu_si512, _mm512_stream_si512};

    /// A cache line. One store writes it.
    const LINE: usize = size_of::<__m512i>();
    const LINES: usize = 4;

    /// # Safety
    ///
    /// The promise of `crate::buffer::transfer::copy`, on a CPU with AVX-512.
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
        let head = to.align_offset(LINE).min(bytes);
        let lines = (bytes - head) / (LINE * LINES) * LINES;
        let tail = head + lines * LINE;
        // SAFETY: within both ranges, because all offsets are at most `bytes`; the stores that bypass the cache begin at a line.
        unsafe {
            std::ptr::copy_nonoverlapping(from, to, head);
            let (source, target) = (
                from.add(head).cast::<__m512i>(),
                to.add(head).cast::<__m512i>(),
            );
            for line in (0..lines).step_by(LINES) {
                // Not an inner loop: a compiler that does not unroll it would load and store line by line.
                let a = _mm512_loadu_si512(source.add(line));
                let b = _mm512_loadu_si512(source.add(line + 1));
                let c = _mm512_loadu_si512(source.add(line + 2));
                let d = _mm512_loadu_si512(source.add(line + 3));
                _mm512_stream_si512(target.add(line), a);
                _mm512_stream_si512(target.add(line + 1), b);
                _mm512_stream_si512(target.add(line + 2), c);
                _mm512_stream_si512(target.add(line + 3), d);
            }
            // Such stores are not ordered with others. After this fence, code that sees the end of the copy sees its bytes.
            _mm_sfence();
            std::ptr::copy_nonoverlapping(from.add(tail), to.add(tail), bytes - tail);
        }
    }
}

#[cfg(all(test, not(cuda_um_loom)))]
mod tests {
    #[test]
    fn every_byte_and_no_other_is_written() {
        let source: Vec<u8> = (0..5000u32).map(|i| (i * 7 + 1) as u8).collect();
        for from in [0, 1, 63] {
            for to in [0, 5, 64] {
                for bytes in [0, 1, 63, 64, 255, 256, 257, 3000, 4000] {
                    let mut target = vec![0u8; 5000];
                    // SAFETY: both ranges are within their vectors.
                    unsafe {
                        super::copy(
                            source.as_ptr().add(from),
                            target.as_mut_ptr().add(to),
                            bytes,
                        );
                    }
                    assert_eq!(target[to..to + bytes], source[from..from + bytes]);
                    let around = target[..to].iter().chain(&target[to + bytes..]);
                    assert!(around.into_iter().all(|byte| *byte == 0));
                }
            }
        }
    }
}
