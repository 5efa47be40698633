//! The traits of element types.

#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;

/// An element of a buffer: plain old data, because a kernel may write any bit pattern.
///
/// Every [`bytemuck::Pod`] type that may be shared between threads is one. A buffer of a type of size zero fails to compile.
///
/// ```compile_fail
/// # let device = cuda_um::Runtime::open().unwrap().device(0).unwrap();
/// cuda_um::UnifiedBuffer::<()>::zeroed(&device, 1);
/// ```
pub trait DeviceCopy: bytemuck::Pod + Send + Sync {}

impl<T: bytemuck::Pod + Send + Sync> DeviceCopy for T {}

/// An element type as a value, such as the dtype of a tensor framework.
pub trait ElementType<T> {
    /// Checks that the value is the type `T`.
    ///
    /// # Errors
    ///
    /// [`Error::DTypeMismatch`] if it is another type.
    fn check(&self) -> Result<()>;
}

/// The alignment of addresses from CUDA's allocators, in bytes.
pub(crate) const ALIGNMENT: usize = 256;

/// Refuses, at compile time, types that a buffer cannot hold.
pub(crate) const fn assert_element<T>() {
    assert!(
        size_of::<T>() > 0,
        "elements of size zero have no place in memory"
    );
    assert!(
        align_of::<T>() <= ALIGNMENT,
        "elements may be aligned to at most 256 bytes"
    );
}
