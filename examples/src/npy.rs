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
    let in_file = |wrong| InputError::new(path, wrong);
    let mut npy = Npy::open(path)?;
    let &[rows, columns] = npy.shape.as_slice() else {
        return Err(in_file(Wrong::Rank {
            shape: npy.shape,
            needed: 2,
        }));
    };
    if rows == 0 || columns == 0 {
        return Err(in_file(Wrong::Empty { shape: npy.shape }));
    }
    let values = match npy.descriptor.as_str() {
        "<f4" => Values::F32(npy.read().map_err(in_file)?),
        "<f2" => Values::F16(npy.read().map_err(in_file)?),
        other if other.starts_with('>') => {
            return Err(in_file(Wrong::BigEndian {
                descriptor: other.into(),
            }));
        }
        other => {
            return Err(in_file(Wrong::Type {
                descriptor: other.into(),
                needed: "'<f4' or '<f2'",
            }));
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
    let in_file = |wrong| InputError::new(path, wrong);
    let mut npy = Npy::open(path)?;
    if npy.shape.len() != 1 {
        return Err(in_file(Wrong::Rank {
            shape: npy.shape,
            needed: 1,
        }));
    }
    match npy.descriptor.as_str() {
        "<i8" => npy.read::<i64>().map_err(in_file),
        "<i4" => Ok(npy
            .read::<i32>()
            .map_err(in_file)?
            .into_iter()
            .map(i64::from)
            .collect()),
        "<u4" => Ok(npy
            .read::<u32>()
            .map_err(in_file)?
            .into_iter()
            .map(i64::from)
            .collect()),
        other => Err(in_file(Wrong::Type {
            descriptor: other.into(),
            needed: "'<i4', '<i8' or '<u4'",
        })),
    }
}

/// A file whose header has been read.
struct Npy {
    file: File,
    shape: Vec<usize>,
    descriptor: String,
    /// Bytes after the header, by the file's length.
    data_bytes: u64,
}

impl Npy {
    fn open(path: &Path) -> Result<Self, InputError> {
        let in_file = |wrong| InputError::new(path, wrong);
        let io = |error: std::io::Error| in_file(Wrong::Io(error));
        let meta = std::fs::metadata(path).map_err(io)?;
        if !meta.is_file() {
            return Err(in_file(Wrong::NotAFile));
        }
        let mut file = File::open(path).map_err(io)?;
        let raw = raw_header(&mut file).map_err(in_file)?;
        let header =
            Header::from_reader(&mut raw.as_slice()).map_err(|_| in_file(Wrong::header(&raw)))?;
        let Some(descriptor) = header.type_descriptor.as_string() else {
            return Err(in_file(Wrong::Type {
                descriptor: header.type_descriptor.to_string(),
                needed: "a plain type",
            }));
        };
        if header.layout.is_fortran() && header.shape.len() > 1 {
            return Err(in_file(Wrong::FortranOrder {
                shape: header.shape,
            }));
        }
        Ok(Self {
            file,
            descriptor: descriptor.clone(),
            shape: header.shape,
            data_bytes: meta.len().saturating_sub(raw.len() as u64),
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
        self.file
            .read_exact(bytemuck::cast_slice_mut(&mut values))
            .map_err(Wrong::Io)?;
        Ok(values)
    }
}

/// The header's bytes, magic included, after checks that keep the parser from trusting a lying one.
fn raw_header(file: &mut File) -> Result<Vec<u8>, Wrong> {
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

fn read_up_to(file: &mut File, into: &mut [u8]) -> Result<usize, Wrong> {
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
