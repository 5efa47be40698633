//! Reads vectors and row numbers from `.npy` files.
//!
//! Every field of the header is checked against the file before anything is allocated, and errors describe the problem in one
//! line. This module does not read Fortran order, big-endian data, pickles or `.npz`.

mod header;

use crate::error::{InputError, Wrong};
use half::f16;
use header::Header;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

// The data are read directly into the result.
const _: () = assert!(cfg!(target_endian = "little"));

/// NumPy also refuses longer headers, unless the file is marked as trusted.
const LONGEST_HEADER_BYTES: usize = 10_000;

/// The numbers of a matrix, row by row.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// `<f4`
    F32(Vec<f32>),
    /// `<f2`
    F16(Vec<f16>),
}

/// One vector in each row, in C order.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    /// Number of vectors.
    pub rows: usize,
    /// Numbers in a vector.
    pub columns: usize,
    /// All numbers.
    pub values: Values,
}

impl Matrix {
    /// The numbers as f32, converted if they are f16.
    pub fn into_f32(self) -> Vec<f32> {
        match self.values {
            Values::F32(values) => values,
            Values::F16(values) => values.into_iter().map(f16::to_f32).collect(),
        }
    }

    /// Name of the element type.
    pub fn type_name(&self) -> &'static str {
        match self.values {
            Values::F32(_) => "f32",
            Values::F16(_) => "f16",
        }
    }
}

/// Reads a matrix of f32 or f16 in C order.
///
/// # Errors
/// The problem with the file, with its name and the invalid value.
pub fn read_matrix(path: &Path) -> Result<Matrix, InputError> {
    in_file(path, matrix_from)
}

/// The same from any reader of `bytes` bytes.
///
/// # Errors
/// The problem with the bytes.
pub fn matrix_from(from: impl Read, bytes: u64) -> Result<Matrix, Wrong> {
    let mut npy = Npy::new(from, bytes)?;
    let &[rows, columns] = npy.shape.as_slice() else {
        return Err(Wrong::Rank {
            shape: npy.shape,
            needed: 2,
        });
    };
    if rows == 0 || columns == 0 {
        return Err(Wrong::Empty { shape: npy.shape });
    }
    let values = match npy.descriptor.as_str() {
        "<f4" => Values::F32(npy.read()?),
        "<f2" => Values::F16(npy.read()?),
        other if other.starts_with('>') => {
            return Err(Wrong::BigEndian {
                descriptor: other.into(),
            });
        }
        other => {
            return Err(Wrong::Type {
                descriptor: other.into(),
                needed: "'<f4' or '<f2'",
            });
        }
    };
    Ok(Matrix {
        rows,
        columns,
        values,
    })
}

/// Reads a list of integers, one for each query.
///
/// # Errors
/// The problem with the file, with its name and the invalid value.
pub fn read_integers(path: &Path) -> Result<Vec<i64>, InputError> {
    in_file(path, integers_from)
}

/// The same from any reader of `bytes` bytes.
///
/// # Errors
/// The problem with the bytes.
pub fn integers_from(from: impl Read, bytes: u64) -> Result<Vec<i64>, Wrong> {
    let mut npy = Npy::new(from, bytes)?;
    if npy.shape.len() != 1 {
        return Err(Wrong::Rank {
            shape: npy.shape,
            needed: 1,
        });
    }
    match npy.descriptor.as_str() {
        "<i8" => npy.read::<i64>(),
        "<i4" => Ok(npy.read::<i32>()?.into_iter().map(i64::from).collect()),
        "<u4" => Ok(npy.read::<u32>()?.into_iter().map(i64::from).collect()),
        other => Err(Wrong::Type {
            descriptor: other.into(),
            needed: "'<i4', '<i8' or '<u4'",
        }),
    }
}

/// Opens a file and reads it; errors name the file.
fn in_file<R>(
    path: &Path,
    read: impl FnOnce(File, u64) -> Result<R, Wrong>,
) -> Result<R, InputError> {
    let open = || {
        let meta = std::fs::metadata(path).map_err(Wrong::Io)?;
        if !meta.is_file() {
            return Err(Wrong::NotAFile);
        }
        Ok((File::open(path).map_err(Wrong::Io)?, meta.len()))
    };
    let outcome = open().and_then(|(file, bytes)| read(file, bytes));
    outcome.map_err(|wrong| InputError::new(path, wrong))
}

/// A file after its header was read.
struct Npy<R> {
    from: R,
    shape: Vec<usize>,
    descriptor: String,
    /// Bytes after the header, computed from the file's length.
    data_bytes: u64,
}

impl<R: Read> Npy<R> {
    fn new(mut from: R, bytes: u64) -> Result<Self, Wrong> {
        let (text, header_bytes) = header_text(&mut from)?;
        let header = Header::parse(&text)?;
        if header.fortran_order && header.shape.len() > 1 {
            return Err(Wrong::FortranOrder {
                shape: header.shape,
            });
        }
        Ok(Self {
            from,
            descriptor: header.descriptor,
            shape: header.shape,
            data_bytes: bytes.saturating_sub(header_bytes),
        })
    }

    /// Reads the data, after a check that the file has exactly this size.
    fn read<T: bytemuck::Pod>(&mut self) -> Result<Vec<T>, Wrong> {
        let too_large = || Wrong::TooLarge {
            shape: self.shape.clone(),
        };
        let len = self
            .shape
            .iter()
            .try_fold(1_usize, |len, &extent| len.checked_mul(extent))
            .ok_or_else(too_large)?;
        let needed = len.checked_mul(size_of::<T>()).ok_or_else(too_large)? as u64;
        let found = self.data_bytes;
        if found < needed {
            return Err(Wrong::Truncated {
                shape: self.shape.clone(),
                needed,
                found,
            });
        }
        if found > needed {
            return Err(Wrong::TrailingBytes {
                shape: self.shape.clone(),
                needed,
                found,
            });
        }
        let mut values = Vec::new();
        values.try_reserve_exact(len).map_err(|_| too_large())?;
        values.resize(len, T::zeroed());
        self.from
            .read_exact(bytemuck::cast_slice_mut(&mut values))
            .map_err(Wrong::Io)?;
        Ok(values)
    }
}

/// The header's text, and the number of bytes before the data.
fn header_text(file: &mut impl Read) -> Result<(Vec<u8>, u64), Wrong> {
    let mut prefix = [0; 12];
    let have = read_up_to(file, &mut prefix[..10])?;
    if !prefix[..have].starts_with(b"\x93NUMPY") {
        return Err(Wrong::NotNpy);
    }
    if have > 7 && !matches!(prefix[6], 1..=3) {
        return Err(Wrong::Version {
            major: prefix[6],
            minor: prefix[7],
        });
    }
    // The length has two bytes in version 1, and four from version 2 on.
    let prefix_bytes = if prefix[6] == 1 { 10 } else { 12 };
    let have = have + read_up_to(file, &mut prefix[have..prefix_bytes])?;
    if have < prefix_bytes {
        return Err(Wrong::HeaderCut);
    }
    let length = [prefix[8], prefix[9], prefix[10], prefix[11]];
    let bytes = u32::from_le_bytes(length) as usize;
    if bytes > LONGEST_HEADER_BYTES {
        return Err(Wrong::LongHeader { bytes });
    }
    let mut text = vec![0; bytes];
    if read_up_to(file, &mut text)? < bytes {
        return Err(Wrong::HeaderCut);
    }
    Ok((text, (prefix_bytes + bytes) as u64))
}

fn read_up_to(file: &mut impl Read, into: &mut [u8]) -> Result<usize, Wrong> {
    let mut have = 0;
    while have < into.len() {
        match file.read(&mut into[have..]) {
            Ok(0) => break,
            Ok(bytes) => have += bytes,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(Wrong::Io(error)),
        }
    }
    Ok(have)
}
