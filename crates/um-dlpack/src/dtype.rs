//! Element types of um-backend as DLPack writes them.

use dlpark::ffi::{DLDataType, DLDataTypeCode as Code};
use um_backend::DType;

use crate::error::{Error, Result};

/// Each type with its code in DLPack; the bits are those of the type.
const CODES: [(DType, Code); 17] = [
    (DType::Bool, Code::BOOL),
    (DType::F8E4M3, Code::FLOAT8_E4M3FN),
    (DType::F8E5M2, Code::FLOAT8_E5M2),
    (DType::F16, Code::FLOAT),
    (DType::BF16, Code::BFLOAT),
    (DType::F32, Code::FLOAT),
    (DType::F64, Code::FLOAT),
    (DType::C64, Code::COMPLEX),
    (DType::C128, Code::COMPLEX),
    (DType::I8, Code::INT),
    (DType::I16, Code::INT),
    (DType::I32, Code::INT),
    (DType::I64, Code::INT),
    (DType::U8, Code::UINT),
    (DType::U16, Code::UINT),
    (DType::U32, Code::UINT),
    (DType::U64, Code::UINT),
];

/// The type in DLPack.
///
/// # Errors
/// [`Error::OpaqueDType`]: DLPack has no blocks that only their owner interprets.
pub fn to_dlpack(dtype: DType) -> Result<DLDataType> {
    let known = CODES.iter().find(|(known, _)| *known == dtype);
    let (_, code) = known.ok_or(Error::OpaqueDType { dtype })?;
    Ok(DLDataType::scalar(*code, bits(dtype)))
}

/// The type in um-backend.
///
/// # Errors
/// [`Error::DType`] for types that um-backend does not have: vectors of several lanes, and elements of less than a byte among them.
pub fn from_dlpack(found: DLDataType) -> Result<DType> {
    let same = |(dtype, code): &&(DType, Code)| {
        *code == found.code && bits(*dtype) == found.bits && found.lanes == 1
    };
    let known = CODES.iter().find(same);
    known.map(|(dtype, _)| *dtype).ok_or(Error::DType {
        code: found.code.0,
        bits: found.bits,
        lanes: found.lanes,
    })
}

/// At most 128.
fn bits(dtype: DType) -> u8 {
    (dtype.size_bytes() * 8) as u8
}
