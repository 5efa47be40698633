//! Two sizes of blocks: of the small one, two are split at once, and both are as large as a large one.

/// What slabs are multiples of.
pub(super) const CHUNK: usize = 4096;
/// Pages of the host.
pub(crate) const PAGE: usize = 256;

pub(super) const LARGE: usize = CHUNK / 2;
pub(super) const SMALL: usize = LARGE / 2;
const SIZES: [usize; 2] = [SMALL, LARGE];

pub(super) struct Classes;

#[derive(Clone, Copy)]
pub(super) struct Run {
    pub(super) class: usize,
    pub(super) bytes: usize,
    pub(super) count: usize,
    pub(super) align: usize,
}

impl Classes {
    pub(super) fn new(_slab_bytes: usize) -> Self {
        Self
    }

    pub(super) fn count(&self) -> usize {
        SIZES.len()
    }

    pub(super) fn size(&self, class: usize) -> usize {
        SIZES[class]
    }

    pub(super) fn of(&self, bytes: usize) -> Option<usize> {
        SIZES.iter().position(|&size| size >= bytes)
    }

    pub(super) fn run(&self, class: usize) -> Run {
        Run {
            class,
            bytes: LARGE,
            count: LARGE / SIZES[class],
            align: LARGE,
        }
    }
}
