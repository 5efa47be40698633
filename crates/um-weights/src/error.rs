//! The error type.

use std::io;
use std::path::{Path, PathBuf};

use um_backend::CudaError;

use crate::printable::{printable, shown};

/// The result of the functions of this crate.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of this crate, with the file, the tensor and the byte in the file. Every message is one line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file cannot be opened, read, written or renamed; or is a FIFO, a device or a socket ([`InvalidInput`](io::ErrorKind::InvalidInput)), or a
    /// folder ([`IsADirectory`](io::ErrorKind::IsADirectory)).
    #[error("{}: {call}: {source}", shown(file))]
    File {
        /// The file.
        file: PathBuf,
        /// The operation that failed.
        call: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// A file as a whole is not what its format allows.
    #[error("{}: at byte {at}: {}", shown(file), printable(reason))]
    Format {
        /// The file.
        file: PathBuf,
        /// The position in the file.
        at: u64,
        /// What is wrong, and what is allowed.
        reason: String,
    },
    /// The description of a tensor is wrong: its type, its shape, its place in the file, a name that another tensor has, or a file that an index
    /// names and that does not have it.
    #[error(
        "{}: tensor {tensor:?}, at byte {at}: {}",
        shown(file),
        printable(reason)
    )]
    Tensor {
        /// The file.
        file: PathBuf,
        /// The tensor.
        tensor: String,
        /// The position of the tensor's bytes in the file, or of its description.
        at: u64,
        /// What is wrong, and what is allowed.
        reason: String,
    },
    /// A file is one part of several, and another part was not opened.
    #[error(
        "{}: it is part {part} of {parts}, and part {missing} is missing: open all parts, or merge them with `llama-gguf-split --merge`",
        shown(file)
    )]
    MissingPart {
        /// The file.
        file: PathBuf,
        /// The number of the part, from 1.
        part: u64,
        /// The number of parts.
        parts: u64,
        /// The first part that is missing, from 1.
        missing: u64,
    },
    /// A file that an index names cannot be opened.
    #[error("{} needs the file {shard:?}: {source}", shown(index))]
    MissingShard {
        /// The index.
        index: PathBuf,
        /// The name of the file, as the index has it.
        shard: String,
        /// The error of the file.
        source: Box<Error>,
    },
    /// A slice, a place in memory or a format that the tensor does not allow.
    #[error("tensor {tensor:?}: {}", printable(reason))]
    Refused {
        /// The tensor.
        tensor: String,
        /// What is wrong, and what is allowed.
        reason: String,
    },
    /// A read of a tensor's bytes failed.
    #[error("{}: tensor {tensor:?}, at byte {at}: {source}", shown(file))]
    Read {
        /// The file.
        file: PathBuf,
        /// The tensor.
        tensor: String,
        /// The position in the file.
        at: u64,
        /// The system's error.
        source: io::Error,
    },
    /// A file is shorter than it was when it was opened.
    #[error(
        "{}: the file ends at byte {at}, in tensor {tensor:?}, and had {opened_bytes} bytes when it was opened: a file must not change while it is \
         read",
        shown(file)
    )]
    Shrunk {
        /// The file.
        file: PathBuf,
        /// The tensor.
        tensor: String,
        /// The end of the file.
        at: u64,
        /// The size of the file when it was opened.
        opened_bytes: u64,
    },
    /// A buffer could not be allocated, written or read.
    #[error("tensor {tensor:?}: {}", printable(&source.to_string()))]
    Cuda {
        /// The tensor; the first one, if several are in the buffer.
        tensor: String,
        /// The error of CUDA.
        source: CudaError,
    },
    /// The callback for progress stopped the load.
    #[error("the load was stopped after {done_bytes} of {total_bytes} bytes")]
    Stopped {
        /// The bytes that were read.
        done_bytes: u64,
        /// The bytes of the load.
        total_bytes: u64,
    },
}

impl Error {
    /// For the system's error of an operation on a file.
    pub(crate) fn of_file(file: &Path, call: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::File {
            file: file.into(),
            call,
            source,
        }
    }

    /// For CUDA's error of a tensor.
    pub(crate) fn of_cuda(tensor: &str) -> impl Fn(CudaError) -> Self {
        move |source| Self::Cuda {
            tensor: tensor.to_owned(),
            source,
        }
    }

    pub(crate) fn refused(tensor: &str, reason: String) -> Self {
        let tensor = tensor.to_owned();
        Self::Refused { tensor, reason }
    }

    /// Returns the system's error and the file, if the system refused an operation on a file.
    #[must_use]
    pub fn of_system(&self) -> Option<(&io::Error, &Path)> {
        match self {
            Self::File { file, source, .. } | Self::Read { file, source, .. } => {
                Some((source, file))
            }
            Self::MissingShard { source, .. } => source.of_system(),
            _ => None,
        }
    }

    /// Returns true if there was not enough memory.
    #[must_use]
    pub fn is_out_of_memory(&self) -> bool {
        matches!(self, Self::Cuda { source, .. } if source.is_out_of_memory())
    }
}
