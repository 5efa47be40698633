//! The cases, a file a group.

mod advice;
mod allocation;
mod devices;
mod errors;
mod pinned;
mod pointers;
mod registered;
mod sources;
mod versions;

use crate::Case;

/// What every group uses.
mod prelude {
    pub(super) use super::sources;
    pub(super) use crate::call::{
        Attribute, Code, Cuda, LEGACY, Memory, PER_THREAD, Place, Stream, advice, fail, kind,
    };
    pub(super) use crate::case::{Case, Failure, Need, Verdict};

    pub(super) const KIB: usize = 1 << 10;
    pub(super) const MIB: usize = 1 << 20;
    /// Device 0.
    pub(super) const DEVICE: Place = Place::device(0);
    pub(super) const HOST: Place = Place::HOST;
}

const GROUPS: &[&[Case]] = &[
    versions::CASES,
    devices::CASES,
    errors::CASES,
    allocation::CASES,
    pointers::CASES,
    pinned::CASES,
    registered::CASES,
    advice::CASES,
];

/// All cases, in the order in which they run.
pub fn all() -> impl Iterator<Item = &'static Case> {
    GROUPS.iter().copied().flatten()
}
