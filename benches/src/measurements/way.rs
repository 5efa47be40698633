//! The raw ways of a copy between ordinary memory and the GPU.

use super::measurement::{LARGEST_MANAGED, MIB, against_best};
use crate::raw::Kind;
use crate::report::CaseReport;

/// How raw CUDA copies a slice of ordinary memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// `cudaMemcpy`
    Call,
    /// `cudaMemcpyAsync` of the slice, and the wait.
    InOrder,
    /// Through pinned memory: `cudaMemcpyAsync`, the wait, and a memcpy on the CPU before or after them.
    Pinned,
}

/// From this size on only `cudaMemcpy` is measured.
const ONLY_CALLS_FROM: usize = 16 * MIB;

impl Way {
    /// True for the sizes at which the way is measured.
    pub(super) fn is_measured(self, kind: Kind, bytes: usize) -> bool {
        let fits = kind != Kind::Managed || bytes <= LARGEST_MANAGED;
        fits && (self == Self::Call || bytes < ONLY_CALLS_FROM)
    }
}

/// For each case, one of ours against the best of the ways.
pub(super) fn against_ways<'a>(
    cases: &'a [CaseReport],
    ours: &'a str,
    what: &'a str,
    ways: [(&'a str, Way); 3],
) -> impl Iterator<Item = String> + 'a {
    cases
        .iter()
        .filter_map(move |case| against_best(case, ours, what, &ways.map(|(name, _)| name)))
}
