//! What can go wrong, with the failing call and its subject.

use cuda_um_sys::LoadError;

/// The result of nearly every call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong. [`Error::kind`] is the short form, to match on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No usable CUDA runtime library was found.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// There is a runtime library, but no driver, or one too old for it.
    #[error("{call}: no CUDA driver that serves this runtime ({name}: {message})")]
    NoDriver {
        /// The function that failed.
        call: &'static str,
        /// CUDA's name of the error.
        name: String,
        /// CUDA's text for the error.
        message: String,
    },
    /// The driver works, but shows no device.
    #[error("{call}: there is no CUDA device")]
    NoDevice {
        /// The function that failed.
        call: &'static str,
    },
    /// No device has this ordinal.
    #[error("there is no device {ordinal}: the runtime has {count}")]
    DeviceOutOfRange {
        /// The ordinal that was asked for.
        ordinal: u32,
        /// How many devices there are.
        count: usize,
    },
    /// Not enough memory, or not enough without oversubscribing the device.
    #[error(
        "{call}: out of memory: {subject}: {requested_bytes} bytes requested, {free_bytes} free of {total_bytes}"
    )]
    OutOfMemory {
        /// The function that failed, or that was not called because it would oversubscribe the device.
        call: &'static str,
        /// What the memory was for.
        subject: String,
        /// The bytes that were asked for; 0 where the call asks for none.
        requested_bytes: usize,
        /// The bytes free on the device (for host memory: of the machine; 0 where unknown).
        free_bytes: usize,
        /// The bytes there are in all (0 where unknown).
        total_bytes: usize,
    },
    /// The runtime, the driver or the device cannot do this.
    #[error("{what} is not supported: it needs {needs}, and there is {have}")]
    NotSupported {
        /// What was asked for.
        what: String,
        /// The version or capability that it needs.
        needs: String,
        /// What there is instead.
        have: String,
    },
    /// Two lengths that must be equal are not.
    #[error("{what}: {expected} elements expected, {found} found")]
    LengthMismatch {
        /// Which lengths.
        what: &'static str,
        /// The length that it had to be.
        expected: usize,
        /// The length that it was.
        found: usize,
    },
    /// A range of elements that is not within the buffer.
    #[error("range {start}..{end} is not within the buffer's {len} elements")]
    RangeOutOfBounds {
        /// The range's first element.
        start: usize,
        /// The element after the range's last one.
        end: usize,
        /// The buffer's length.
        len: usize,
    },
    /// A length whose size in bytes does not fit the address space.
    #[error(
        "{len} elements of {element_bytes} bytes are more than can be addressed: {} bytes",
        isize::MAX
    )]
    TooLarge {
        /// The length that was asked for.
        len: usize,
        /// The size of one element.
        element_bytes: usize,
    },
    /// A copy ended half-way.
    #[error("{copied_bytes} of {total_bytes} bytes were copied: {cause}")]
    Incomplete {
        /// From the first byte on, as many are certainly copied; what comes behind them may be or not.
        copied_bytes: usize,
        /// The bytes that were to be copied.
        total_bytes: usize,
        /// Why.
        #[source]
        cause: Box<Error>,
    },
    /// A value beyond what the device can do.
    #[error("{what} is {value}, and the limit is {limit}")]
    LimitExceeded {
        /// Which value.
        what: &'static str,
        /// The value.
        value: u64,
        /// The largest value that is allowed.
        limit: u64,
    },
    /// A value that has no meaning here.
    #[error("{what} cannot be {value}: {reason}")]
    InvalidArgument {
        /// Which value.
        what: &'static str,
        /// The value.
        value: String,
        /// Why not.
        reason: String,
    },
    /// Two things that must belong to one device do not.
    #[error("{what} belongs to device {found}, not to device {expected}")]
    DeviceMismatch {
        /// What belongs to another device.
        what: &'static str,
        /// The device that it must belong to.
        expected: u32,
        /// The device that it belongs to.
        found: u32,
    },
    /// Two things that must belong to one [`Runtime`](crate::Runtime) do not.
    #[error("{what} belongs to another runtime")]
    RuntimeMismatch {
        /// What belongs to another runtime.
        what: &'static str,
    },
    /// It is in use now.
    #[error("{what} is busy: {by}")]
    Busy {
        /// What is in use.
        what: String,
        /// By what.
        by: String,
    },
    /// The device's context is broken (an illegal address, a hardware fault), or a device that worked is gone: every later call fails
    /// until the process ends.
    ///
    /// The call that reports it is often not the one that caused it.
    #[error(
        "{call}: {subject}: {name} ({code}): {message}; the device is unusable until the process ends"
    )]
    Sticky {
        /// The function that reported it.
        call: &'static str,
        /// What it was called for.
        subject: String,
        /// CUDA's number of the error.
        code: u32,
        /// CUDA's name of the error.
        name: String,
        /// CUDA's text for the error.
        message: String,
    },
    /// This process is a child made by `fork`, and what was called belongs to its parent: CUDA cannot be used in such a child.
    ///
    /// Start the child with `exec` (as `std::process::Command` does), or fork before the first use of CUDA.
    #[error("{call}: this process was made by fork, and CUDA cannot be used in a child of fork")]
    Forked {
        /// The function that was not called, or what needs it.
        call: &'static str,
    },
    /// Any other failure of a CUDA function.
    #[error("{call}: {subject}: {name} ({code}): {message}")]
    Call {
        /// The function that failed.
        call: &'static str,
        /// What it was called for.
        subject: String,
        /// CUDA's number of the error.
        code: u32,
        /// CUDA's name of the error.
        name: String,
        /// CUDA's text for the error.
        message: String,
    },
}

/// The kinds of [`Error`], to match on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// No usable CUDA runtime library.
    Load,
    /// No driver, or one too old.
    NoDriver,
    /// No device at all, or none with that ordinal.
    NoDevice,
    /// Not enough memory.
    OutOfMemory,
    /// Needs a newer version or another device.
    NotSupported,
    /// An argument that cannot be: a length, a range, a limit, the wrong device.
    InvalidArgument,
    /// In use now.
    Busy,
    /// The device is unusable until the process ends.
    Sticky,
    /// This process is a child made by `fork`.
    Forked,
    /// Another failure of a CUDA function.
    Call,
}

impl Error {
    /// The kind of the error.
    ///
    /// ```
    /// # let device = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env().unwrap().table())?.device(0)?;
    /// use cuda_um::{ErrorKind, UnifiedBuffer};
    ///
    /// let error = UnifiedBuffer::<u8>::zeroed(&device, 1 << 60).unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    /// # Ok::<(), cuda_um::Error>(())
    /// ```
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Load(_) => ErrorKind::Load,
            Self::NoDriver { .. } => ErrorKind::NoDriver,
            Self::NoDevice { .. } | Self::DeviceOutOfRange { .. } => ErrorKind::NoDevice,
            Self::OutOfMemory { .. } => ErrorKind::OutOfMemory,
            Self::NotSupported { .. } => ErrorKind::NotSupported,
            Self::LengthMismatch { .. }
            | Self::RangeOutOfBounds { .. }
            | Self::TooLarge { .. }
            | Self::LimitExceeded { .. }
            | Self::InvalidArgument { .. }
            | Self::DeviceMismatch { .. }
            | Self::RuntimeMismatch { .. } => ErrorKind::InvalidArgument,
            Self::Incomplete { cause, .. } => cause.kind(),
            Self::Busy { .. } => ErrorKind::Busy,
            Self::Sticky { .. } => ErrorKind::Sticky,
            Self::Forked { .. } => ErrorKind::Forked,
            Self::Call { .. } => ErrorKind::Call,
        }
    }

    /// Whether every later call will fail too, until the process ends.
    pub fn is_sticky(&self) -> bool {
        matches!(self.kind(), ErrorKind::Sticky | ErrorKind::Forked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_the_values() {
        let error = Error::LengthMismatch {
            what: "copy_from_host",
            expected: 4,
            found: 3,
        };
        assert_eq!(
            error.to_string(),
            "copy_from_host: 4 elements expected, 3 found"
        );
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        let error = Error::RangeOutOfBounds {
            start: 2,
            end: 9,
            len: 4,
        };
        assert_eq!(
            error.to_string(),
            "range 2..9 is not within the buffer's 4 elements"
        );
    }
}
