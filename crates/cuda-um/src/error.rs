//! Errors, each with the failing call and its subject.

mod kind;

pub use kind::ErrorKind;

use cuda_um_sys::LoadError;

/// The result of nearly every call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of this crate. [`Error::kind`] gives its kind, to match on.
///
/// Every message is one line. [`Debug`](std::fmt::Debug) writes the same text, because `fn main() -> Result<(), Error>` prints it.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No usable CUDA runtime library was found.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A runtime library is installed, but no driver, or the driver is too old for the library.
    #[error("{call}: no CUDA driver that serves this runtime ({name}: {message})")]
    NoDriver {
        /// The function that failed.
        call: &'static str,
        /// CUDA's name of the error.
        name: String,
        /// CUDA's text for the error.
        message: String,
    },
    /// The driver works, but reports no device.
    #[error("{call}: there is no CUDA device")]
    NoDevice {
        /// The function that failed.
        call: &'static str,
    },
    /// No device has this ordinal.
    #[error("there is no device {ordinal}: the runtime has {count}, numbered from 0")]
    NoSuchDevice {
        /// The requested ordinal.
        ordinal: usize,
        /// The number of devices.
        count: usize,
    },
    /// Not enough memory, or not enough without oversubscribing the device.
    #[error(
        "{call}: out of memory: {subject}: {requested_bytes} bytes requested, {free_bytes} free of {total_bytes}; \
         drop buffers, or request less memory"
    )]
    OutOfMemory {
        /// The function that failed, or that was not called because it would oversubscribe the device.
        call: &'static str,
        /// The purpose of the memory.
        subject: String,
        /// The requested bytes; 0 if the call requests none.
        requested_bytes: usize,
        /// Free bytes of the device, or of the machine for host memory; 0 if unknown.
        free_bytes: usize,
        /// Total bytes of the device, or of the machine for host memory; 0 if unknown.
        total_bytes: usize,
    },
    /// The runtime, the driver or the device does not support the operation.
    #[error("{what} is not supported: it needs {needs}, and there is {have}")]
    NotSupported {
        /// The operation.
        what: String,
        /// The version or capability that the operation requires.
        needs: String,
        /// The version or capability that was found.
        have: String,
    },
    /// The arguments of a launch do not have the number and the sizes of the kernel's parameters.
    #[error(
        "kernel {kernel} has {} parameters (bytes: {expected_bytes:?}), and {} arguments (bytes: {found_bytes:?}) were given: \
         pass one of its size for each parameter",
        expected_bytes.len(),
        found_bytes.len()
    )]
    Arguments {
        /// The kernel's name.
        kernel: String,
        /// The size of each parameter.
        expected_bytes: Vec<u32>,
        /// The size of each argument.
        found_bytes: Vec<u32>,
    },
    /// Two lengths differ that must be equal.
    #[error("{what}: {expected} elements expected, {found} found")]
    LengthMismatch {
        /// The name of the lengths.
        what: &'static str,
        /// The required length, in elements.
        expected: usize,
        /// The length that was given, in elements.
        found: usize,
    },
    /// A range of elements exceeds the buffer.
    #[error(
        "range {start}..{end} is not within the buffer's {len} elements{}",
        if start > end { ": it ends before it begins" } else { "" }
    )]
    RangeOutOfBounds {
        /// The range's first element.
        start: usize,
        /// The element after the range's last one.
        end: usize,
        /// The buffer's length, in elements.
        len: usize,
    },
    /// The size of a length in bytes exceeds the address space.
    #[error(
        "{len} elements of {element_bytes} bytes are more than can be addressed (at most {} bytes)",
        isize::MAX
    )]
    TooLarge {
        /// The requested length, in elements.
        len: usize,
        /// The size of one element, in bytes.
        element_bytes: usize,
    },
    /// A copy stopped before its end.
    #[error("{copied_bytes} of {total_bytes} bytes were copied: {cause}")]
    Incomplete {
        /// Length of the prefix that is known to be copied. Later bytes may or may not have been copied.
        copied_bytes: usize,
        /// The size of the whole copy.
        total_bytes: usize,
        /// The error that stopped the copy.
        #[source]
        cause: Box<Error>,
    },
    /// The part of one device in an operation on several failed. The parts of the others are not affected by it.
    #[error("shard {shard}, on device {device}: {cause}")]
    Shard {
        /// The number of the shard, from 0.
        shard: usize,
        /// The ordinal of its device.
        device: u32,
        /// The error of that part.
        #[source]
        cause: Box<Error>,
    },
    /// A value exceeds a limit of the device.
    #[error("{what} is {value}, and the limit is {limit}")]
    LimitExceeded {
        /// The name of the value.
        what: &'static str,
        /// The value that was given.
        value: u64,
        /// The largest allowed value.
        limit: u64,
    },
    /// A value is not valid for this call.
    #[error("{what} cannot be {value}: {reason}")]
    InvalidArgument {
        /// The name of the value.
        what: &'static str,
        /// The value that was given.
        value: String,
        /// The reason why the value is refused.
        reason: String,
    },
    /// An element type that is a value, as the dtype of a tensor, is not the element type of the buffer.
    #[error("dtype {requested} was requested, but {what} is {element}: both must be the same")]
    DTypeMismatch {
        /// The element type in words, with the buffer's name or the name of the launcher's parameter.
        what: String,
        /// The element type that was requested.
        requested: String,
        /// The element type of the buffer.
        element: String,
    },
    /// Two objects belong to different devices, but must belong to one.
    #[error(
        "{what} belongs to device {found}, not to device {expected}: use one of device {expected}"
    )]
    DeviceMismatch {
        /// The object that belongs to another device.
        what: &'static str,
        /// The ordinal of the required device.
        expected: u32,
        /// The ordinal of the object's device.
        found: u32,
    },
    /// Two objects belong to different [`Runtime`](crate::Runtime)s, but must belong to one.
    #[error(
        "{what} belongs to another runtime: use objects of one `Runtime`, which has all devices"
    )]
    RuntimeMismatch {
        /// The object that belongs to another runtime.
        what: &'static str,
    },
    /// A stream or memory of another library is not what the import allows.
    #[error("{what} cannot be imported: it is {found}, and the import allows {allowed}")]
    Foreign {
        /// The stream or the memory.
        what: String,
        /// The properties that CUDA reports.
        found: String,
        /// The properties that the import allows.
        allowed: String,
    },
    /// A write to memory that was imported, or to a file that was mapped, to be read.
    #[error(
        "{what} is a read-only import or a mapped file, which nothing may write: import it with `from_foreign` if its owner allows writes, or write to a \
         copy"
    )]
    ReadOnly {
        /// The buffer.
        what: String,
    },
    /// The object is in use.
    #[error("{what} is busy: {by}")]
    Busy {
        /// The object.
        what: String,
        /// The current use.
        by: String,
    },
    /// The call cannot be part of the graph that this thread captures. The capture goes on.
    #[error("{call} is not possible in the capture of a graph: {reason}")]
    Capture {
        /// The call, or the operation.
        call: String,
        /// The reason, and what to do.
        reason: String,
    },
    /// A call would wait for a guard that may be the caller's own.
    #[error(
        "{call} could wait for ever for {held}: drop it first, split one write guard (`ViewMut::split_at`), copy one part on write (`make_unique`), or wait in tasks (`read_async`, `write_async`)"
    )]
    WouldDeadlock {
        /// The function that would wait.
        call: &'static str,
        /// The guards.
        held: String,
    },
    /// The device's context is corrupted (an illegal address, a hardware fault), or a device is lost that worked before. Every later call
    /// fails until the process ends.
    ///
    /// The call that reports the error is often not the call that caused it.
    #[error(
        "{call}: {subject}: {name} ({code}): {message}; the device is unusable until the process ends"
    )]
    Sticky {
        /// The function that reported it.
        call: &'static str,
        /// The subject of the call.
        subject: String,
        /// CUDA's error code.
        code: u32,
        /// CUDA's name of the error.
        name: String,
        /// CUDA's text for the error.
        message: String,
    },
    /// This process is a child made by `fork` of a process that used CUDA. CUDA cannot be used in such a child.
    ///
    /// Start the child with `exec` (as `std::process::Command` does), or fork before the first use of CUDA.
    #[error("{call}: this process was made by fork, and CUDA cannot be used in a child of fork")]
    Forked {
        /// The function that was not called, or the operation that needs it.
        call: &'static str,
    },
    /// A reader or a writer of the caller failed, in the middle of a copy.
    #[error("{call}: after {done_bytes} of {total_bytes} bytes: {source}")]
    Io {
        /// The function that read or wrote.
        call: &'static str,
        /// The bytes that were read or written before the failure.
        done_bytes: usize,
        /// The bytes of the range.
        total_bytes: usize,
        /// The error of the reader or the writer.
        source: std::io::Error,
    },
    /// An error of another crate or module, which a downcast finds: of the profiler, a kernel's launcher, the simulator, or a function that a
    /// guard calls ([`HostMut::of_copy`](crate::HostMut::of_copy)).
    #[error(transparent)]
    Other(Box<dyn std::error::Error + Send + Sync>),
    /// Any other failure of a CUDA function.
    #[error("{call}: {subject}: {name} ({code}): {message}")]
    Call {
        /// The function that failed.
        call: &'static str,
        /// The subject of the call.
        subject: String,
        /// CUDA's error code.
        code: u32,
        /// CUDA's name of the error.
        name: String,
        /// CUDA's text for the error.
        message: String,
    },
}

impl Error {
    /// The error of a launcher's argument, with the name of its parameter.
    #[must_use]
    pub fn of_argument(self, launcher: &str, parameter: &str) -> Self {
        match self {
            Self::DTypeMismatch {
                requested, element, ..
            } => Self::DTypeMismatch {
                what: format!("the element type of `{parameter}` of {launcher}"),
                requested,
                element,
            },
            Self::NotSupported { what, needs, have } => Self::NotSupported {
                what: format!("{launcher}: `{parameter}`: {what}"),
                needs,
                have,
            },
            other => other,
        }
    }

    /// Adds what else is known to CUDA's text for the error.
    pub(crate) fn with_details(mut self, details: impl IntoIterator<Item = String>) -> Self {
        if let Self::Call { message, .. } | Self::Sticky { message, .. } = &mut self {
            for detail in details.into_iter().filter(|detail| !detail.is_empty()) {
                *message += ": ";
                *message += &detail;
            }
        }
        self
    }

    /// Returns true if there was not enough memory: [`Error::OutOfMemory`], also as the cause of [`Error::Incomplete`].
    pub fn is_out_of_memory(&self) -> bool {
        self.kind() == ErrorKind::OutOfMemory
    }

    /// Returns true if every later call will fail too, until the process ends.
    pub fn is_sticky(&self) -> bool {
        matches!(self.kind(), ErrorKind::Sticky | ErrorKind::Forked)
    }
}

impl std::fmt::Debug for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}
