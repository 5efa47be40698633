//! Copying memory past the CPU's caches.
//!
//! A copy engine reads faster from memory than from lines that a core has just written and still holds: staging 64 MiB on an H200's host
//! took 1.66 ms with such stores and 2.0 ms without (`docs/results/h200-cuda-13.0/staging.md`).
#![allow(unsafe_code, reason = "intrinsics of the CPU, on addresses")]

/// Pays for copies of so many bytes, and more.
pub(crate) const FROM: usize = 1 << 20;

/// Copies as `std::ptr::copy_nonoverlapping`, with stores past the caches where the CPU has them.
///
/// # Safety
///
/// Both are valid for `bytes`, and do not overlap.
pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx512f") {
        // SAFETY: the CPU can do it; the rest is the caller's promise.
        return unsafe { x86::copy(from, to, bytes) };
    }
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{__m512i, _mm_sfence, _mm512_loadu_si512, _mm512_stream_si512};

    /// A cache line, which one store writes.
    const LINE: usize = size_of::<__m512i>();
    const LINES: usize = 4;

    /// # Safety
    ///
    /// As for `crate::buffer::transfer::copy`, on a CPU with AVX-512.
    #[target_feature(enable = "avx512f")]
    pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
        let head = to.align_offset(LINE).min(bytes);
        let lines = (bytes - head) / (LINE * LINES) * LINES;
        let tail = head + lines * LINE;
        // SAFETY: within both, as all offsets are at most `bytes`; what is stored past the cache begins at a line.
        unsafe {
            std::ptr::copy_nonoverlapping(from, to, head);
            let (source, target) = (
                from.add(head).cast::<__m512i>(),
                to.add(head).cast::<__m512i>(),
            );
            for line in (0..lines).step_by(LINES) {
                // Not in an inner loop: a compiler that does not unroll it stores each line for itself.
                let a = _mm512_loadu_si512(source.add(line));
                let b = _mm512_loadu_si512(source.add(line + 1));
                let c = _mm512_loadu_si512(source.add(line + 2));
                let d = _mm512_loadu_si512(source.add(line + 3));
                _mm512_stream_si512(target.add(line), a);
                _mm512_stream_si512(target.add(line + 1), b);
                _mm512_stream_si512(target.add(line + 2), c);
                _mm512_stream_si512(target.add(line + 3), d);
            }
            // Such stores are in no order with others; whoever is told that the copy is done must see it.
            _mm_sfence();
            std::ptr::copy_nonoverlapping(from.add(tail), to.add(tail), bytes - tail);
        }
    }
}

#[cfg(test)]
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
