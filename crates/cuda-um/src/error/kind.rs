//! The kinds of errors.

use crate::error::Error;

/// The kinds of [`Error`], to match on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// There is no GPU: no usable library, no driver that serves it, or no device.
    NoGpu,
    /// There is not enough memory.
    OutOfMemory,
    /// The operation needs a newer version or another device.
    NotSupported,
    /// An argument is not valid: a length, a range, a limit, the wrong device.
    InvalidArgument,
    /// The object is in use.
    Busy,
    /// The call cannot be captured into a graph.
    Capture,
    /// The device is unusable until the process ends.
    Sticky,
    /// This process is a child made by `fork`.
    Forked,
    /// An error of code outside of this crate.
    Other,
    /// Any other failure of a CUDA function.
    Call,
}

impl Error {
    /// The kind of this error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Load(_) | Self::NoDriver { .. } | Self::NoDevice { .. } => ErrorKind::NoGpu,
            Self::OutOfMemory { .. } => ErrorKind::OutOfMemory,
            Self::NotSupported { .. } => ErrorKind::NotSupported,
            Self::Arguments { .. }
            | Self::LengthMismatch { .. }
            | Self::RangeOutOfBounds { .. }
            | Self::TooLarge { .. }
            | Self::LimitExceeded { .. }
            | Self::InvalidArgument { .. }
            | Self::NoSuchDevice { .. }
            | Self::DTypeMismatch { .. }
            | Self::DeviceMismatch { .. }
            | Self::RuntimeMismatch { .. }
            | Self::Foreign { .. }
            | Self::ReadOnly { .. } => ErrorKind::InvalidArgument,
            Self::Incomplete { cause, .. } | Self::Shard { cause, .. } => cause.kind(),
            Self::Busy { .. } | Self::WouldDeadlock { .. } => ErrorKind::Busy,
            Self::Capture { .. } => ErrorKind::Capture,
            Self::Sticky { .. } => ErrorKind::Sticky,
            Self::Forked { .. } => ErrorKind::Forked,
            Self::Io { .. } | Self::Other(_) => ErrorKind::Other,
            Self::Call { .. } => ErrorKind::Call,
        }
    }
}
