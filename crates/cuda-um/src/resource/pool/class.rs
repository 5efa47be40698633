//! Block sizes: powers of two with four steps between, rounded up to the required alignment.

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

#[cfg(all(test, not(cuda_um_loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: crate::cases::cases(5_000), failure_persistence: None, ..ProptestConfig::default() })]

        /// For slabs of any size that a pool can have and blocks of any smaller size, nothing overflows, and every block has its bytes.
        #[test]
        fn classes_of_any_slab_hold_their_bytes(
            slab_chunks in prop_oneof![1..100_usize, 1..=(isize::MAX as usize / CHUNK)],
            bytes in prop_oneof![1..100_000_usize, 1..=isize::MAX as usize],
        ) {
            let slab_bytes = slab_chunks * CHUNK;
            let classes = Classes::new(slab_bytes);
            prop_assert!(classes.sizes.is_sorted() && u16::try_from(classes.count()).is_ok());
            match classes.of(bytes) {
                None => prop_assert!(bytes > *classes.sizes.last().unwrap()),
                Some(class) => {
                    let (size, run) = (classes.size(class), classes.run(class));
                    prop_assert!(bytes <= size && size <= slab_bytes / 2);
                    // Four steps between two powers of two, in pages or chunks.
                    let grain = [(PAGE, SMALLEST), (CHUNK, PAGE)].into_iter().find(|(to, _)| bytes <= *to);
                    prop_assert!(size - bytes < grain.map_or(CHUNK, |(_, grain)| grain).max(bytes / 4 + 1));
                    prop_assert!(run.count as u128 * size as u128 <= run.bytes as u128);
                    // Blocks beyond a page share none.
                    prop_assert!(run.bytes.is_multiple_of(run.align) && run.align >= PAGE);
                    prop_assert!(size <= PAGE || size.is_multiple_of(PAGE));
                    prop_assert!(run.count >= 1 && (size < CHUNK || run.align == CHUNK));
                    // A run fits in an empty slab, at any alignment.
                    prop_assert!(run.bytes <= slab_bytes && slab_bytes.is_multiple_of(run.align));
                }
            }
        }
    }

    #[test]
    fn four_steps_from_one_power_of_two_to_the_next() {
        let classes = Classes::new(32 * MIB);
        let kib: Vec<_> = classes.sizes.iter().map(|size| size / KIB).collect();
        let from_64 = kib.iter().position(|&size| size == 64).unwrap();
        assert_eq!(kib[from_64..from_64 + 5], [64, 80, 96, 112, 128]);
        assert_eq!(&classes.sizes[..5], [256, 512, 768, 1024, 1280]);
        assert_eq!(*classes.sizes.last().unwrap(), 16 * MIB);
        assert!(classes.sizes.is_sorted() && classes.count() < 80);
    }
}
