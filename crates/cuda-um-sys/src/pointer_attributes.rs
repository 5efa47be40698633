//! Memory for the result of `cudaPointerGetAttributes`, which is larger since CUDA 13.

use crate::bindings::common::cudaPointerAttributes;
use std::ffi::c_long;

/// A result of `cudaPointerGetAttributes` of any version, zeroed: older runtimes write the first 24 bytes, 13 writes all 88
/// (56 on Windows, where `long` has 4 bytes).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PointerAttributes {
    /// The fields. Bytes that the runtime did not write are zero.
    pub fields: cudaPointerAttributes,
}

const _: () = assert!(size_of::<PointerAttributes>() >= 24 + size_of::<[c_long; 8]>());

impl Default for PointerAttributes {
    fn default() -> Self {
        Self {
            // SAFETY: a C struct of integers, pointers and a newtype over an integer: zero is a valid value for each.
            fields: unsafe { std::mem::zeroed() },
        }
    }
}
