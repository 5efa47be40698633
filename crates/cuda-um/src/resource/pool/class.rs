//! Block sizes: powers of two with four steps between, rounded up to the required alignment.

#[cfg(all(test, not(cuda_um_loom)))]
mod tests;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// Slabs and blocks of this size or more are multiples of it: the driver's unit of migration, in bytes.
pub(super) const CHUNK: usize = if IS_MODEL { 4 * KIB } else { 2 * MIB };
/// Blocks up to this size share it, and larger ones are multiples of it, in bytes. The host's pages may be larger ([`host_page`]).
const PAGE: usize = if IS_MODEL { KIB } else { 4 * KIB };
/// The size of a host page, in bytes: 4 KiB, on Arm also 16 or 64 KiB.
pub(super) fn host_page() -> usize {
    #[cfg(all(unix, not(cuda_um_loom)))]
    {
        #[allow(unsafe_code, reason = "asks the system")]
        // SAFETY: no preconditions.
        let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        usize::try_from(bytes).unwrap_or(PAGE)
    }
    #[cfg(any(not(unix), cuda_um_loom))]
    PAGE
}

/// The smallest block, and the alignment of every address, in bytes.
const SMALLEST: usize = if IS_MODEL { KIB } else { 256 };
/// The runs of blocks up to a page, and of larger blocks that are smaller than the first run.
const RUNS: [usize; 2] = if IS_MODEL {
    [2 * KIB; 2]
} else {
    [64 * KIB, 256 * KIB]
};
/// The pools of `tests/loom` have two classes of blocks, because each order of threads locks the shards for every class.
const IS_MODEL: bool = cfg!(cuda_um_loom);

/// The sizes of blocks into which slabs are split, in increasing order.
pub(super) struct Classes {
    sizes: Vec<usize>,
}

impl Classes {
    /// Classes up to half a slab; larger buffers get a dedicated slab.
    pub(super) fn new(slab_bytes: usize) -> Self {
        let next = |&size: &usize| Some(round(size + 1)).filter(|&next| next <= slab_bytes / 2);
        Self {
            sizes: std::iter::successors(Some(SMALLEST), next).collect(),
        }
    }

    pub(super) fn count(&self) -> usize {
        self.sizes.len()
    }

    pub(super) fn size(&self, class: usize) -> usize {
        self.sizes[class]
    }

    /// The smallest class whose blocks have at least `bytes`.
    pub(super) fn of(&self, bytes: usize) -> Option<usize> {
        let class = self.sizes.partition_point(|&size| size < bytes);
        (class < self.sizes.len()).then_some(class)
    }

    /// The run that is split off a slab at once for a class: its size, its number of blocks, and its alignment.
    pub(super) fn run(&self, class: usize) -> Run {
        let size = self.sizes[class];
        let bytes = match size {
            ..=PAGE => RUNS[0],
            size if size < RUNS[0] => RUNS[1],
            size => size,
        };
        Run {
            class,
            bytes,
            count: bytes / size,
            align: (1 << bytes.trailing_zeros()).min(CHUNK),
        }
    }
}

/// A piece of a slab that is split into blocks of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) class: usize,
    pub(super) bytes: usize,
    pub(super) count: usize,
    pub(super) align: usize,
}

/// The size of the block for `bytes`, which is at least 1.
fn round(bytes: usize) -> usize {
    let grain = match bytes {
        bytes if bytes <= PAGE => SMALLEST,
        bytes if bytes <= CHUNK => PAGE,
        _ => CHUNK,
    };
    // The largest power of two below `bytes`.
    let below = 1 << bytes.saturating_sub(1).max(1).ilog2();
    bytes.next_multiple_of(grain.max(below / 4))
}
