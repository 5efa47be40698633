//! The errors of CPU references.

use std::borrow::Cow;
use std::ops::Range;

use crate::engine::Code;

/// The error of a CPU reference. For the caller of the CUDA API the kernel has faulted.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReferenceError {
    /// The kernel has no parameter with this number.
    #[error("parameter {index}: the kernel has {count}")]
    NoParameter {
        /// The requested number.
        index: usize,
        /// Parameters that the PTX declares.
        count: usize,
    },
    /// The parameter has another size.
    #[error("parameter {index} has {found} bytes, its CPU reference expects {expected}")]
    ParameterSize {
        /// The parameter.
        index: usize,
        /// Bytes that the PTX declares.
        found: usize,
        /// Bytes that the reference expects.
        expected: usize,
    },
    /// The kernel touches memory that it may not touch.
    #[error("illegal access to {bytes} bytes at {address:#x} (parameter {index}): {why}")]
    IllegalAddress {
        /// The parameter.
        index: usize,
        /// First address.
        address: usize,
        /// Bytes from there.
        bytes: usize,
        /// The reason.
        why: Cow<'static, str>,
    },
    /// The kernel leaves the argument that it was passed, whose size the caller of the launch declared.
    #[error(
        "parameter {index} was passed {bytes} bytes of a buffer, and the kernel {access} the bytes {} to {} from its address on",
        accessed.start, accessed.end
    )]
    BeyondArgument {
        /// The parameter.
        index: usize,
        /// Bytes of the argument.
        bytes: usize,
        /// The access, a verb.
        access: &'static str,
        /// The bytes that the kernel accesses, from the address of the argument on.
        accessed: Range<usize>,
    },
    /// The kernel writes an argument that the caller of the launch declared as only read.
    #[error(
        "parameter {index} was passed to be read (`&`), and the kernel writes it: pass `&mut`, or only read it"
    )]
    ReadOnlyArgument {
        /// The parameter.
        index: usize,
    },
    /// The pointer is not aligned for the element.
    #[error("misaligned address {address:#x} (parameter {index})")]
    Misaligned {
        /// The parameter.
        index: usize,
        /// The address.
        address: usize,
    },
    /// Two slices of one launch overlap, and one of them is mutable.
    #[error(
        "parameter {index} overlaps a slice that the CPU reference already holds, and one of them is mutable"
    )]
    Overlap {
        /// The parameter.
        index: usize,
    },
    /// No graph has the condition.
    #[error("no graph has a condition {handle:#x}")]
    NoCondition {
        /// The handle.
        handle: u64,
    },
    /// An error of the reference itself: as a failed device-side assertion.
    #[error("{0}")]
    Failed(String),
}

impl ReferenceError {
    pub(crate) fn code(&self) -> Code {
        match self {
            ReferenceError::Misaligned { .. } => Code::MISALIGNED_ADDRESS,
            ReferenceError::Failed(_) => Code::ASSERT,
            _ => Code::ILLEGAL_ADDRESS,
        }
    }
}
