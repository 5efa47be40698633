//! The names of element types.

use std::fmt;
use std::str::FromStr;

use super::DType;
use crate::error::CudaError;

type Row = (
    DType,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
);

/// Of each type: the name in Rust's style, of safetensors (empty if it has none), of NumPy, and in NumPy's files.
const NAMES: [Row; 17] = [
    (DType::Bool, "bool", "BOOL", "bool", "|b1"),
    (DType::F8E4M3, "f8e4m3", "F8_E4M3", "float8_e4m3fn", ""),
    (DType::F8E5M2, "f8e5m2", "F8_E5M2", "float8_e5m2", ""),
    (DType::F16, "f16", "F16", "float16", "<f2"),
    (DType::BF16, "bf16", "BF16", "bfloat16", ""),
    (DType::F32, "f32", "F32", "float32", "<f4"),
    (DType::F64, "f64", "F64", "float64", "<f8"),
    (DType::C64, "c64", "C64", "complex64", "<c8"),
    (DType::C128, "c128", "", "complex128", "<c16"),
    (DType::I8, "i8", "I8", "int8", "|i1"),
    (DType::I16, "i16", "I16", "int16", "<i2"),
    (DType::I32, "i32", "I32", "int32", "<i4"),
    (DType::I64, "i64", "I64", "int64", "<i8"),
    (DType::U8, "u8", "U8", "uint8", "|u1"),
    (DType::U16, "u16", "U16", "uint16", "<u2"),
    (DType::U32, "u32", "U32", "uint32", "<u4"),
    (DType::U64, "u64", "U64", "uint64", "<u8"),
];

/// The start of the name of an opaque type, and of the same in NumPy's files.
const OPAQUE: [&str; 2] = ["opaque", "|V"];

impl DType {
    fn names(self) -> Option<&'static Row> {
        NAMES.iter().find(|(dtype, ..)| *dtype == self)
    }

    /// The name in Rust's style, without a size of opaque blocks: `"f32"`, `"opaque"`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.names().map_or(OPAQUE[0], |names| names.1)
    }

    /// The name in safetensors files: `"F32"`. `None` if the format does not have the type.
    #[must_use]
    pub fn safetensors_name(self) -> Option<&'static str> {
        self.names()
            .map(|names| names.2)
            .filter(|name| !name.is_empty())
    }

    /// The name in NumPy: `"float32"`, or of the package `ml_dtypes`: `"bfloat16"`. `None` for opaque blocks.
    #[must_use]
    pub fn numpy_name(self) -> Option<&'static str> {
        self.names().map(|names| names.3)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Opaque(bytes) => f.pad(&format!("{}{bytes}", OPAQUE[0])),
            known => f.pad(known.name()),
        }
    }
}

/// Takes the names of [`Display`](fmt::Display), of safetensors (`F32`, `F8_E4M3`, `BOOL`) and of NumPy (`float32`, `<f4`, `|b1`, `|V18`).
///
/// # Errors
/// [`InvalidArgument`](cuda_um::Error::InvalidArgument) with the name, and the names that are allowed.
impl FromStr for DType {
    type Err = CudaError;

    fn from_str(name: &str) -> Result<Self, CudaError> {
        let known = |row: &&Row| !name.is_empty() && [row.1, row.2, row.3, row.4].contains(&name);
        if let Some(row) = NAMES.iter().find(known) {
            return Ok(row.0);
        }
        let bytes = OPAQUE.iter().find_map(|start| name.strip_prefix(start));
        let bytes = bytes.and_then(|digits| digits.parse().ok());
        match bytes {
            Some(bytes) if bytes > 0 => Ok(Self::Opaque(bytes)),
            _ => Err(unknown(name)),
        }
    }
}

fn unknown(name: &str) -> CudaError {
    let allowed: Vec<_> = NAMES.iter().map(|row| row.1).collect();
    CudaError::InvalidArgument {
        what: "a dtype",
        value: format!("{name:?}"),
        reason: format!(
            "the names are {} and opaque with a number of bytes, and those of safetensors (F32) and of NumPy (float32, <f4; little-endian)",
            allowed.join(", ")
        ),
    }
}
