//! What the CPU references share.

use cuda_um_sim::{CpuReference, LaunchContext, ReferenceError};

pub(crate) type Outcome = Result<(), ReferenceError>;

/// A module's PTX, and the references of its kernels.
pub(crate) type Module = (&'static str, &'static [(&'static str, CpuReference)]);

/// A 64-bit size.
pub(crate) fn size(launch: &LaunchContext<'_>, index: usize) -> Result<usize, ReferenceError> {
    launch.value::<u64>(index).map(|value| value as usize)
}

/// A 32-bit size.
pub(crate) fn number(launch: &LaunchContext<'_>, index: usize) -> Result<usize, ReferenceError> {
    launch.value::<u32>(index).map(|value| value as usize)
}
