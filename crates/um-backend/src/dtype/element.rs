//! The trait of element types, and elements that Rust does not have.

use std::fmt;

use bytemuck::{Pod, Zeroable};

use super::DType;

/// An element of a [`Buffer`](crate::Buffer): plain old data with a [`DType`].
///
/// It can be implemented for a caller's own type, whose size must be that of its `DType`: otherwise the first buffer of it fails to compile.
///
/// # Examples
/// ```
/// use bytemuck::{Pod, Zeroable};
/// use um_backend::{Buffer, DType, Element, HostBuffer};
///
/// /// 32 weights of 4 bits, and their scale.
/// #[derive(Debug, Clone, Copy, PartialEq, Pod, Zeroable)]
/// #[repr(C)]
/// struct Block {
///     scale: u16,
///     weights: [u8; 16],
/// }
///
/// impl Element for Block {
///     const DTYPE: DType = DType::Opaque(size_of::<Self>());
/// }
///
/// let blocks = HostBuffer::<Block>::zeroed(10)?;
/// assert_eq!((blocks.dtype(), blocks.size_bytes()), (DType::Opaque(18), 180));
/// # Ok::<(), um_backend::CudaError>(())
/// ```
///
/// ```compile_fail
/// #[derive(Debug, Clone, Copy, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
/// #[repr(C)]
/// struct Block([u8; 18]);
///
/// impl um_backend::Element for Block {
///     const DTYPE: um_backend::DType = um_backend::DType::F32;
/// }
///
/// um_backend::HostBuffer::<Block>::zeroed(10);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an element of a buffer",
    note = "implement `um_backend::Element`, with a `DType` of the type's size: any plain old data (`bytemuck::Pod`) can be an element",
    note = "`bool` has invalid bit patterns: use `um_backend::dtype::Bool`"
)]
pub trait Element: cuda_um::DeviceCopy + fmt::Debug + PartialEq {
    /// The type as a value, of the size of `Self`.
    const DTYPE: DType;
}

/// The dtype of `T`. Fails to compile if it does not have the size of `T`.
pub(crate) const fn dtype_of<T: Element>() -> DType {
    const {
        assert!(
            size_of::<T>() == T::DTYPE.size_bytes(),
            "the size of the element type is not that of its DTYPE"
        );
    }
    T::DTYPE
}

macro_rules! elements {
    ($($rust:ty => $dtype:ident),* $(,)?) => {$(
        impl Element for $rust {
            const DTYPE: DType = DType::$dtype;
        }
        const _: DType = dtype_of::<$rust>();
    )*};
}

elements! {
    Bool => Bool, F8E4M3 => F8E4M3, F8E5M2 => F8E5M2,
    half::f16 => F16, half::bf16 => BF16, f32 => F32, f64 => F64,
    i8 => I8, i16 => I16, i32 => I32, i64 => I64,
    u8 => U8, u16 => U16, u32 => U32, u64 => U64,
}
#[cfg(feature = "complex")]
elements! { num_complex::Complex32 => C64, num_complex::Complex64 => C128 }

macro_rules! byte_elements {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Pod, Zeroable)]
        #[repr(transparent)]
        pub struct $name(pub u8);
    )*};
}

byte_elements! {
    /// A `bool` of a buffer: a byte, because a kernel may write any bit pattern. Every value other than 0 is true.
    Bool
    /// The bits of an 8-bit float with 4 bits of exponent and 3 of mantissa (`e4m3fn`). A framework's kernels do the arithmetic.
    F8E4M3
    /// The bits of an 8-bit float with 5 bits of exponent and 2 of mantissa. A framework's kernels do the arithmetic.
    F8E5M2
}

impl From<bool> for Bool {
    fn from(value: bool) -> Self {
        Self(value.into())
    }
}

impl From<Bool> for bool {
    fn from(value: Bool) -> Self {
        value.0 != 0
    }
}
