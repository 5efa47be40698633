//! Element types, as a value and as a trait.

mod check;
mod element;
mod name;
#[cfg(feature = "serde")]
mod text;

pub(crate) use check::check_same;
pub(crate) use element::dtype_of;
pub use element::{Bool, Element, F8E4M3, F8E5M2};

/// The element type as a value, which a tensor framework can store and compare.
///
/// It is a text in both directions: [`Display`](std::fmt::Display) writes the name in Rust's style, and [`FromStr`](std::str::FromStr)
/// also takes the names of safetensors and of NumPy. The feature `serde` uses the same text.
///
/// # Examples
/// ```
/// use um_backend::{DType, Element, dtype::{F8E4M3, F8E5M2}};
///
/// assert_eq!(DType::F32.size_bytes(), 4);
/// assert_eq!((F8E4M3::DTYPE, F8E5M2::DTYPE), (DType::F8E4M3, DType::F8E5M2)); // elements for which Rust has no type
/// assert_eq!(DType::BF16.to_string(), "bf16");
/// for name in ["f32", "F32", "float32", "<f4"] {
///     assert_eq!(name.parse::<DType>()?, DType::F32);
/// }
/// assert_eq!((DType::F32.safetensors_name(), DType::F32.numpy_name()), (Some("F32"), Some("float32")));
/// assert_eq!("opaque18".parse::<DType>()?.size_bytes(), 18);
/// # Ok::<(), um_backend::CudaError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DType {
    /// A byte that is 0 or 1: [`Bool`].
    Bool,
    /// An 8-bit float with 4 bits of exponent and no infinities: [`F8E4M3`].
    F8E4M3,
    /// An 8-bit float with 5 bits of exponent: [`F8E5M2`].
    F8E5M2,
    /// IEEE half precision, [`half::f16`].
    F16,
    /// bfloat16, [`half::bf16`].
    BF16,
    /// `f32`.
    F32,
    /// `f64`.
    F64,
    /// Two `f32`, real part first; `num_complex::Complex32` with the feature `complex`.
    C64,
    /// Two `f64`, real part first; `num_complex::Complex64` with the feature `complex`.
    C128,
    /// `i8`.
    I8,
    /// `i16`.
    I16,
    /// `i32`.
    I32,
    /// `i64`.
    I64,
    /// `u8`.
    U8,
    /// `u16`.
    U16,
    /// `u32`.
    U32,
    /// `u64`.
    U64,
    /// A block of so many bytes that only its owner interprets, such as a block of quantised weights.
    Opaque(usize),
}

impl DType {
    /// The size of one element.
    #[must_use]
    pub const fn size_bytes(self) -> usize {
        match self {
            Self::Bool | Self::F8E4M3 | Self::F8E5M2 | Self::I8 | Self::U8 => 1,
            Self::F16 | Self::BF16 | Self::I16 | Self::U16 => 2,
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::F64 | Self::C64 | Self::I64 | Self::U64 => 8,
            Self::C128 => 16,
            Self::Opaque(bytes) => bytes,
        }
    }
}
