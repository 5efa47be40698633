//! The element types of the formats.

use safetensors::Dtype;
use um_backend::DType;

use crate::info::Kind;

/// Types of safetensors files that `DType` does not have.
const OPAQUE: [&str; 6] = [
    "F4",
    "F6_E2M3",
    "F6_E3M2",
    "F8_E8M0",
    "F8_E4M3FNUZ",
    "F8_E5M2FNUZ",
];

/// The type of a safetensors file.
pub(crate) fn of_safetensors(dtype: Dtype) -> Option<Kind> {
    let text = dtype.to_string();
    // The smallest number of elements that fills whole bytes.
    let block = match dtype.bitsize() {
        4 => 2,
        6 => 4,
        _ => 1,
    };
    let bytes = dtype.bitsize() * block / 8;
    let (name, dtype) = match OPAQUE.into_iter().find(|name| *name == text) {
        Some(name) => (name, DType::Opaque(bytes)),
        None => {
            let own: DType = text.parse().ok()?;
            (own.safetensors_name()?, own)
        }
    };
    Some(Kind { name, dtype, block })
}

/// The type of a safetensors file with this name.
pub(crate) fn to_safetensors(name: &str) -> Option<Dtype> {
    serde_json::from_value(serde_json::Value::from(name)).ok()
}

/// The type of a GGUF file with this number: `ggml_type` of ggml, and its block sizes.
pub(crate) fn of_gguf(number: u32) -> Option<Kind> {
    let (name, block, bytes) = match number {
        0 => ("F32", 1, 4),
        1 => ("F16", 1, 2),
        2 => ("Q4_0", 32, 18),
        3 => ("Q4_1", 32, 20),
        6 => ("Q5_0", 32, 22),
        7 => ("Q5_1", 32, 24),
        8 => ("Q8_0", 32, 34),
        9 => ("Q8_1", 32, 36),
        10 => ("Q2_K", 256, 84),
        11 => ("Q3_K", 256, 110),
        12 => ("Q4_K", 256, 144),
        13 => ("Q5_K", 256, 176),
        14 => ("Q6_K", 256, 210),
        15 => ("Q8_K", 256, 292),
        16 => ("IQ2_XXS", 256, 66),
        17 => ("IQ2_XS", 256, 74),
        18 => ("IQ3_XXS", 256, 98),
        19 => ("IQ1_S", 256, 50),
        20 => ("IQ4_NL", 32, 18),
        21 => ("IQ3_S", 256, 110),
        22 => ("IQ2_S", 256, 82),
        23 => ("IQ4_XS", 256, 136),
        24 => ("I8", 1, 1),
        25 => ("I16", 1, 2),
        26 => ("I32", 1, 4),
        27 => ("I64", 1, 8),
        28 => ("F64", 1, 8),
        29 => ("IQ1_M", 256, 56),
        30 => ("BF16", 1, 2),
        34 => ("TQ1_0", 256, 54),
        35 => ("TQ2_0", 256, 66),
        39 => ("MXFP4", 32, 17),
        40 => ("NVFP4", 64, 36),
        41 => ("Q1_0", 128, 18),
        _ => return None,
    };
    let dtype = match block {
        1 => name.parse().ok()?,
        _ => DType::Opaque(bytes),
    };
    Some(Kind { name, dtype, block })
}
