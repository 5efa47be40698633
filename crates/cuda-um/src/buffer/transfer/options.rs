//! Options for staged copies.

use crate::buffer::transfer::ring::CHUNKS;
use crate::buffer::transfer::{Piece, Staged, plan};
use crate::sync::cores;
use smallvec::SmallVec;

/// Options for copies from and to pageable host memory, which the library stages:
/// [`Device::set_transfer_options`](crate::Device::set_transfer_options).
///
/// ```
/// # let device = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env().unwrap().table())?.device(0)?;
/// use cuda_um::buffer::TransferOptions;
///
/// // One thread, and no more than 2 MiB of pinned memory for copies above 128 KiB.
/// device.set_transfer_options(TransferOptions::default().threads(1).ring_bytes(2 << 20));
/// # Ok::<(), cuda_um::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferOptions {
    pub(super) threads: usize,
    ring_bytes: usize,
}

/// The largest piece without a ring, in bytes.
const MOST: usize = 4 * MIB;
/// The upper limit of threads, because each has chunks and a lane in the ring. Far fewer saturate any link.
const MOST_THREADS: usize = 256;
const MIB: usize = 1 << 20;

impl Default for TransferOptions {
    /// Three quarters of the machine's cores, but at most 12 threads, with two chunks of 2 MiB each. A thread allocates the chunks that a copy above
    /// 128 KiB needs, and until it is done the driver copies: no copy waits for pinned memory of 1 MiB and more. A smaller copy has 256 KiB of pinned
    /// memory for itself, which later ones use again. Every copy is staged, but for those of 512 KiB to 2 MiB to an idle stream, which the driver does
    /// at least as fast. Reads of files ([`FileRead`](crate::buffer::FileRead)) wait for the memory.
    fn default() -> Self {
        let threads = (cores() * 3 / 4).clamp(1, 12);
        Self {
            threads,
            ring_bytes: threads * CHUNKS * 2 * MIB,
        }
    }
}

impl TransferOptions {
    /// Sets the number of threads that copy, including the calling one; 0 means 1, and more than 256 means 256.
    #[must_use]
    pub fn threads(self, threads: usize) -> Self {
        Self {
            threads: threads.clamp(1, MOST_THREADS),
            ..self
        }
    }

    /// Sets the size of the ring's pinned memory in bytes; it is rounded down to chunks of whole pages, two for each thread. With 0 there is
    /// no ring: the driver copies what exceeds 128 KiB.
    #[must_use]
    pub fn ring_bytes(self, bytes: usize) -> Self {
        Self {
            ring_bytes: bytes,
            ..self
        }
    }

    pub(super) fn most_piece_bytes(self) -> usize {
        match self.chunk_bytes() {
            0 => MOST,
            chunk => chunk.min(MOST),
        }
    }

    /// Returns the number of threads of a job to the device, and its pieces, which split no unit.
    pub(crate) fn pieces(self, copy: &Staged, unit_bytes: usize) -> (usize, SmallVec<[Piece; 8]>) {
        let threads = plan::copy_threads(copy.bytes, self.threads);
        let chunk = self.most_piece_bytes().max(unit_bytes);
        (threads, plan::pieces(copy, unit_bytes, chunk, threads))
    }

    /// Returns the size of the chunks in bytes; 0 if staging is disabled.
    pub(super) fn chunk_bytes(self) -> usize {
        let bytes = self.ring_bytes / (self.threads * CHUNKS);
        bytes - bytes % PAGE
    }
}

/// The sizes of chunks and of pieces are multiples of this. The host's pages may be larger: each chunk is an allocation of its own.
pub(super) const PAGE: usize = if cfg!(cuda_um_loom) { 256 } else { 4096 };

#[cfg(all(test, not(cuda_um_loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_ring_is_never_larger_than_asked() {
        for threads in [0, 1, 3, 64, usize::MAX / 2 + 1, usize::MAX] {
            for ring_bytes in [0, 1, 8192, 100_000, 64 * MIB, usize::MAX] {
                let options = TransferOptions::default()
                    .threads(threads)
                    .ring_bytes(ring_bytes);
                let chunks = options.threads as u128 * CHUNKS as u128;
                let chunk = options.chunk_bytes();
                assert!(chunk as u128 * chunks <= ring_bytes as u128, "{options:?}");
                assert_eq!(chunk % PAGE, 0);
            }
        }
    }
}
