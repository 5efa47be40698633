//! Room for `cudaPointerGetAttributes`, whose result grew with CUDA 13.

use crate::bindings::common::cudaPointerAttributes;

/// A place for `cudaPointerGetAttributes` of any version, zeroed: the older runtimes write the first 24 bytes, 13 writes all 88.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PointerAttributes {
    /// The fields. What the runtime did not write is zero.
    pub fields: cudaPointerAttributes,
}

const _: () = assert!(size_of::<PointerAttributes>() >= 88);

impl Default for PointerAttributes {
    fn default() -> Self {
        Self {
            // SAFETY: a C struct of integers, pointers and a newtype over an integer: zero is a value of each.
            fields: unsafe { std::mem::zeroed() },
        }
    }
}
