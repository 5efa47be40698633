//! How copies are staged.

/// How copies from and to pageable memory of the host are staged: [`Device::set_transfer_options`](crate::Device::set_transfer_options).
///
/// ```
/// # let device = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env().unwrap().table())?.device(0)?;
/// use cuda_um::TransferOptions;
///
/// // One thread, and no more than 2 MiB of pinned memory.
/// device.set_transfer_options(TransferOptions::default().threads(1).ring_bytes(2 << 20));
/// # Ok::<(), cuda_um::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferOptions {
    pub(crate) threads: usize,
    pub(crate) ring_bytes: usize,
    from_bytes: usize,
}

/// Chunks that each thread has: it fills one while the other is on its way.
pub(crate) const CHUNKS_PER_THREAD: usize = 2;
/// Each has chunks and a place in the ring; far fewer saturate any link.
const MOST_THREADS: usize = 256;
const MIB: usize = 1 << 20;

impl Default for TransferOptions {
    /// Half of the machine's cores, but at most 6, with two chunks of 2 MiB each, which are allocated as copies need them: one for
    /// small copies, all for large ones. Every copy is staged.
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
        let threads = (cores / 2).clamp(1, 6);
        Self {
            threads,
            ring_bytes: threads * CHUNKS_PER_THREAD * 2 * MIB,
            from_bytes: 0,
        }
    }
}

impl TransferOptions {
    /// Sets how many threads copy, the calling one among them; 0 counts as 1, and more than 256 as 256.
    #[must_use]
    pub fn threads(self, threads: usize) -> Self {
        Self {
            threads: threads.clamp(1, MOST_THREADS),
            ..self
        }
    }

    /// Sets how much pinned memory the ring has; it is rounded down to chunks of whole pages, two for each thread. 0 turns staging
    /// off: the driver copies by itself.
    #[must_use]
    pub fn ring_bytes(self, bytes: usize) -> Self {
        Self {
            ring_bytes: bytes,
            ..self
        }
    }

    /// Sets from how many bytes on a copy is staged; smaller ones are left to the driver. The default is 0.
    #[must_use]
    pub fn from_bytes(self, bytes: usize) -> Self {
        Self {
            from_bytes: bytes,
            ..self
        }
    }

    /// Whether a copy of this size is staged.
    pub(crate) fn stages(self, bytes: usize) -> bool {
        bytes > 0 && bytes >= self.from_bytes && self.chunk_bytes() > 0
    }

    /// The largest chunk; 0 if nothing is to be staged.
    pub(crate) fn chunk_bytes(self) -> usize {
        let bytes = self.ring_bytes / (self.threads * CHUNKS_PER_THREAD);
        bytes - bytes % PAGE
    }
}

/// Chunks begin and end at whole pages.
pub(crate) const PAGE: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_is_never_larger_than_asked() {
        for threads in [0, 1, 3, 64, usize::MAX / 2 + 1, usize::MAX] {
            for ring_bytes in [0, 1, 8192, 100_000, 64 * MIB, usize::MAX] {
                let options = TransferOptions::default()
                    .threads(threads)
                    .ring_bytes(ring_bytes);
                let chunks = options.threads as u128 * CHUNKS_PER_THREAD as u128;
                let ring = options.chunk_bytes() as u128 * chunks;
                assert!(ring <= ring_bytes as u128, "{options:?}");
                assert_eq!(options.chunk_bytes() % PAGE, 0);
            }
        }
    }
}
