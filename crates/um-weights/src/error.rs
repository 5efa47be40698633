//! The error type.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use um_backend::CudaError;

/// The result of the functions of this crate.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of this crate, with the file, the tensor and the byte in the file. Every message is one line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file cannot be opened, read, written or renamed.
    #[error("{}: {call}: {source}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// The operation that failed.
        call: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// A FIFO, a device, a socket or a folder.
    #[error("{} is {found}: weights are read from regular files", file.display())]
    NotRegular {
        /// The path.
        file: PathBuf,
        /// What it is.
        found: &'static str,
    },
    /// A file as a whole is not what its format allows.
    #[error("{}: at byte {at}: {reason}", file.display())]
    Format {
        /// The file.
        file: PathBuf,
        /// The position in the file.
        at: u64,
        /// What is wrong, and what is allowed.
        reason: String,
    },
    /// The description of a tensor is wrong: its type, its shape, its place in the file.
    #[error("{}: tensor {tensor:?}, at byte {at}: {reason}", file.display())]
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
    /// Two tensors have one name.
    #[error(
        "tensor {tensor:?} is in {} and in {}: a name has one tensor (an index tells which file has it)",
        files[0].display(), files[1].display()
    )]
    Duplicate {
        /// The name.
        tensor: String,
        /// The files, which may be the same.
        files: [PathBuf; 2],
    },
    /// A file that an index names cannot be opened.
    #[error("{} needs the file {shard:?}: {source}", index.display())]
    MissingShard {
        /// The index.
        index: PathBuf,
        /// The name of the file, as the index has it.
        shard: String,
        /// The error of the file.
        source: Box<Error>,
    },
    /// An index names a tensor that its file does not have.
    #[error("{} has tensor {tensor:?} in the file {shard:?}, which does not have it", index.display())]
    NotInShard {
        /// The index.
        index: PathBuf,
        /// The tensor.
        tensor: String,
        /// The name of the file.
        shard: String,
    },
    /// A slice that the tensor does not have.
    #[error(
        "tensor {tensor:?} of shape {shape:?} has no slice {range:?} of dimension {dimension}: {reason}"
    )]
    Slice {
        /// The tensor.
        tensor: String,
        /// Its shape.
        shape: Vec<usize>,
        /// The dimension that was given.
        dimension: usize,
        /// The range that was given.
        range: Range<usize>,
        /// What is wrong, and what is allowed.
        reason: String,
    },
    /// Memory that a tensor cannot be loaded into.
    #[error("tensor {tensor:?} cannot be loaded into this memory: {reason}")]
    Target {
        /// The tensor.
        tensor: String,
        /// What is wrong, and what is allowed.
        reason: String,
    },
    /// A read of a tensor's bytes failed.
    #[error("{}: tensor {tensor:?}, at byte {at}: {source}", file.display())]
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
        file.display()
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
    #[error("tensor {tensor:?}: {source}")]
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
    /// A tensor that the format cannot hold.
    #[error("tensor {tensor:?} cannot be saved: {reason}")]
    Save {
        /// The tensor.
        tensor: String,
        /// What is wrong, and what is allowed.
        reason: String,
    },
}

impl Error {
    /// For the system's error of an operation on a file.
    pub(crate) fn of_file(file: &Path, call: &'static str) -> impl Fn(io::Error) -> Self {
        let file = file.to_path_buf();
        move |source| Self::File {
            file: file.clone(),
            call,
            source,
        }
    }

    /// For CUDA's error of a tensor.
    pub(crate) fn of_cuda(tensor: &str) -> impl Fn(CudaError) -> Self {
        let tensor = tensor.to_owned();
        move |source| Self::Cuda {
            tensor: tensor.clone(),
            source,
        }
    }

    /// Returns true if there was not enough memory.
    #[must_use]
    pub fn is_out_of_memory(&self) -> bool {
        matches!(self, Self::Cuda { source, .. } if source.is_out_of_memory())
    }
}
