//! The element types of rows, and the kernels for each.

use super::cpu::Scalar;
use crate::error::Result;
use cuda_um::{Kernel, Module};
use half::{bf16, f16};

/// An element type of vectors that has kernels: `f32`, `f16` or `bf16`.
pub trait TargetScalar: Scalar + cuda_um::DeviceCopy + private::Sealed {}

impl TargetScalar for f32 {}
impl TargetScalar for f16 {}
impl TargetScalar for bf16 {}

mod private {
    /// Selects one of the kernels for [`TYPES`](super::TYPES).
    pub trait Sealed {
        const INDEX: usize;
    }
    impl Sealed for f32 {
        const INDEX: usize = 0;
    }
    impl Sealed for half::f16 {
        const INDEX: usize = 1;
    }
    impl Sealed for half::bf16 {
        const INDEX: usize = 2;
    }
}

/// The element types of rows, as the names of kernels end.
pub(crate) const TYPES: [&str; 3] = ["f32", "f16", "bf16"];

/// A kernel for each of [`TYPES`].
pub(crate) type EachType = [Kernel; 3];

/// The kernels with this name for each type of rows.
pub(crate) fn each_type(module: &Module, name: &str) -> Result<EachType> {
    let [f32, f16, bf16] = TYPES.map(|of| module.kernel(&format!("{name}_{of}")));
    Ok([f32?, f16?, bf16?])
}

/// The index of the kernel for targets of this type.
pub(crate) fn type_index<T: TargetScalar>() -> usize {
    <T as private::Sealed>::INDEX
}
