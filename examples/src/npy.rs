//! Reads vectors and row numbers from `.npy` files.
//!
//! `ndarray-npy` parses the header; this module bounds what it is given, checks every claim of the header
//! against the file before allocating, and says in one line what is wrong. It does not read Fortran order,
//! big-endian data, pickles or `.npz`.

use crate::error::{InputError, Wrong};
use half::f16;
use ndarray_npy::npy::header::Header;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

// The data is read straight into place.
const _: () = assert!(cfg!(target_endian = "little"));

/// NumPy itself refuses longer headers unless told to trust the file.
const LONGEST_HEADER_BYTES: usize = 10_000;
/// A shape in a dictionary nests twice; parsers of Python literals recurse.
const DEEPEST_NESTING: usize = 4;

/// The numbers of a matrix, row by row.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// `<f4`
    F32(Vec<f32>),
    /// `<f2`
    F16(Vec<f16>),
}

/// One vector a row, in C order.
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
/// Whatever is wrong with the file, with its name and the offending value.
pub fn read_matrix(path: &Path) -> Result<Matrix, InputError> {
    in_file(path, matrix_from)
}

/// The same from any reader of so many bytes.
///
/// # Errors
/// Whatever is wrong with the bytes.
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
/// Whatever is wrong with the file, with its name and the offending value.
pub fn read_integers(path: &Path) -> Result<Vec<i64>, InputError> {
    in_file(path, integers_from)
}

/// The same from any reader of so many bytes.
///
/// # Errors
/// Whatever is wrong with the bytes.
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

/// Opens a file and reads it; an error names it.
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

/// A file whose header has been read.
struct Npy<R> {
    from: R,
    shape: Vec<usize>,
    descriptor: String,
    /// Bytes after the header, by the file's length.
    data_bytes: u64,
}

impl<R: Read> Npy<R> {
    fn new(mut from: R, bytes: u64) -> Result<Self, Wrong> {
        let raw = raw_header(&mut from)?;
        let header = Header::from_reader(&mut raw.as_slice()).map_err(|_| Wrong::header(&raw))?;
        let Some(descriptor) = header.type_descriptor.as_string() else {
            return Err(Wrong::Type {
                descriptor: header.type_descriptor.to_string(),
                needed: "a plain type",
            });
        };
        if header.layout.is_fortran() && header.shape.len() > 1 {
            return Err(Wrong::FortranOrder {
                shape: header.shape,
            });
        }
        Ok(Self {
            from,
            descriptor: descriptor.clone(),
            shape: header.shape,
            data_bytes: bytes.saturating_sub(raw.len() as u64),
        })
    }

    /// Reads the data, once the file is known to hold exactly that much.
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

/// The header's bytes, magic included, after checks that keep the parser from trusting a lying one.
fn raw_header(file: &mut impl Read) -> Result<Vec<u8>, Wrong> {
    let mut raw = vec![0; 12];
    let have = read_up_to(file, &mut raw)?;
    if !raw[..have].starts_with(b"\x93NUMPY") {
        return Err(Wrong::NotNpy);
    }
    let (text_at, text_bytes) = match (raw[6], have) {
        (1, 10..) => (10, usize::from(u16::from_le_bytes([raw[8], raw[9]]))),
        (2 | 3, 12) => (
            12,
            u32::from_le_bytes([raw[8], raw[9], raw[10], raw[11]]) as usize,
        ),
        (1..=3, _) => return Err(Wrong::HeaderCut),
        (major, _) => {
            return Err(Wrong::Version {
                major,
                minor: raw[7],
            });
        }
    };
    if text_bytes > LONGEST_HEADER_BYTES {
        return Err(Wrong::LongHeader { bytes: text_bytes });
    }
    // Short texts of version 1 lie within the 12 bytes already read, and data may follow them there.
    if text_at + text_bytes < have {
        return Err(Wrong::header(&raw));
    }
    raw.resize(text_at + text_bytes, 0);
    let rest = &mut raw[have..];
    if read_up_to(file, rest)? < rest.len() {
        return Err(Wrong::HeaderCut);
    }
    let mut depth = 0_usize;
    for byte in &raw[text_at..] {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > DEEPEST_NESTING {
            return Err(Wrong::header(&raw));
        }
    }
    Ok(raw)
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
