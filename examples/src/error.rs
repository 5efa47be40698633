//! Errors of inputs, in one line that names the file and the value.

use std::path::{Path, PathBuf};

/// A file, and the problem with it.
#[derive(Debug, thiserror::Error)]
#[error("{}: {wrong}", path.display())]
pub struct InputError {
    /// The file.
    pub path: PathBuf,
    /// The problem.
    pub wrong: Wrong,
}

impl InputError {
    /// Creates an error for a file.
    pub fn new(path: &Path, wrong: Wrong) -> Self {
        Self {
            path: path.to_owned(),
            wrong,
        }
    }
}

/// The problem with a file.
#[derive(Debug, thiserror::Error)]
pub enum Wrong {
    /// It is missing or unreadable, or a read failed.
    #[error("{0}")]
    Io(std::io::Error),
    /// A folder, a pipe or a device.
    #[error("not a regular file")]
    NotAFile,
    /// No magic string.
    #[error("not a .npy file: it does not start with \\x93NUMPY")]
    NotNpy,
    /// The format's version.
    #[error("version {major}.{minor} of the .npy format is unknown; 1.0, 2.0 and 3.0 are read")]
    Version {
        /// First number.
        major: u8,
        /// Second number.
        minor: u8,
    },
    /// The file ends inside the header.
    #[error("truncated: the file ends inside its header")]
    HeaderCut,
    /// The header has an implausible length.
    #[error("its header claims to be {bytes} bytes long; at most 10000 are read")]
    LongHeader {
        /// The length in the file.
        bytes: usize,
    },
    /// The header is not a dictionary of `descr`, `fortran_order` and `shape`.
    #[error("its header is not what .npy needs (descr, fortran_order, shape): {excerpt:?}")]
    Header {
        /// Its first characters.
        excerpt: String,
    },
    /// Fortran order.
    #[error("shape {shape:?} is in Fortran order; C order is needed (numpy.ascontiguousarray)")]
    FortranOrder {
        /// The file's shape.
        shape: Vec<usize>,
    },
    /// Big-endian numbers.
    #[error("type '{descriptor}' is big-endian; little-endian is needed (array.astype('<f4'))")]
    BigEndian {
        /// The file's type.
        descriptor: String,
    },
    /// Another type.
    #[error("type '{descriptor}'; {needed} is needed")]
    Type {
        /// The file's type.
        descriptor: String,
        /// The required type.
        needed: &'static str,
    },
    /// Another number of dimensions.
    #[error("shape {shape:?} has {} dimensions; {needed} needed", shape.len())]
    Rank {
        /// The file's shape.
        shape: Vec<usize>,
        /// The required number of dimensions.
        needed: usize,
    },
    /// No rows or no columns.
    #[error("shape {shape:?} holds no vectors")]
    Empty {
        /// The file's shape.
        shape: Vec<usize>,
    },
    /// Too many elements for this machine.
    #[error("shape {shape:?} does not fit in memory")]
    TooLarge {
        /// The file's shape.
        shape: Vec<usize>,
    },
    /// Less data than the header states.
    #[error("truncated: shape {shape:?} needs {needed} bytes of data, the file has {found}")]
    Truncated {
        /// The file's shape.
        shape: Vec<usize>,
        /// Bytes required by the header.
        needed: u64,
        /// Bytes after the header.
        found: u64,
    },
    /// More data than the header states.
    #[error("shape {shape:?} needs {needed} bytes of data, but the file goes on to {found}")]
    TrailingBytes {
        /// The file's shape.
        shape: Vec<usize>,
        /// Bytes required by the header.
        needed: u64,
        /// Bytes after the header.
        found: u64,
    },
    /// NaN or infinity.
    #[error("row {row}, column {column} is {value} (rows count from 0)")]
    NotFinite {
        /// Row, from 0.
        row: usize,
        /// Column, from 0.
        column: usize,
        /// The number.
        value: f32,
    },
    /// A zero vector, which has no direction.
    #[error("row {row} is a zero vector: it has no cosine (rows count from 0)")]
    ZeroVector {
        /// Row, from 0.
        row: usize,
    },
    /// Vectors of different lengths.
    #[error("vectors of {found} numbers, but those of {} have {expected}", other.display())]
    Dimension {
        /// In this file.
        found: usize,
        /// In the other file.
        expected: usize,
        /// The other file.
        other: PathBuf,
    },
    /// `k` is zero, or more than the number of targets.
    #[error("k = {k} is not in 1 ..= {targets}, the number of targets")]
    K {
        /// The requested number.
        k: usize,
        /// Number of targets.
        targets: usize,
    },
    /// A text that is not UTF-8.
    #[error("line {line} is not UTF-8")]
    NotUtf8 {
        /// Line, from 1.
        line: usize,
    },
    /// The number of lines differs from the number of vectors.
    #[error("{found} lines, but {} has {expected} vectors", other.display())]
    LineCount {
        /// In this file.
        found: usize,
        /// Vectors in the other file.
        expected: usize,
        /// The other file.
        other: PathBuf,
    },
    /// Truth that is not a row number.
    #[error("line {line}: {text:?} is not a row number")]
    NotARow {
        /// Line, from 1.
        line: usize,
        /// The text.
        text: String,
    },
    /// Truth beyond the targets.
    #[error(
        "query {query} belongs to target {target}, but there are {targets} targets (counted from 0)"
    )]
    NoSuchTarget {
        /// The query, from 0.
        query: usize,
        /// The row number in the file.
        target: i64,
        /// Number of targets.
        targets: usize,
    },
}

impl Wrong {
    /// An error for a header that could not be read, with its first characters.
    pub(crate) fn header(text: &[u8]) -> Self {
        Self::Header {
            excerpt: Self::excerpt(text),
        }
    }

    /// The first characters of a text, for an error.
    pub(crate) fn excerpt(text: &[u8]) -> String {
        String::from_utf8_lossy(&text[..text.len().min(60)])
            .trim_end()
            .to_owned()
    }
}
