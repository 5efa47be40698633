//! What a buffer may hold.

/// An element of a buffer: plain old data, for a kernel may write any bit pattern.
///
/// Every [`bytemuck::Pod`] type that may be shared between threads is one. References, `bool`, `char`, `NonZero` types and
/// anything with padding are not. Types of size zero are refused when a buffer of them is made, at compile time.
///
/// ```
/// use bytemuck::{Pod, Zeroable};
///
/// #[derive(Clone, Copy, Pod, Zeroable)]
/// #[repr(C)]
/// struct Particle {
///     position: [f32; 3],
///     mass: f32,
/// }
///
/// # let device = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env().unwrap().table())?.device(0)?;
/// let particles = cuda_um::UnifiedBuffer::<Particle>::zeroed(&device, 10)?;
/// assert_eq!(particles.size_bytes(), 160);
/// # Ok::<(), cuda_um::Error>(())
/// ```
///
/// ```compile_fail
/// # let device = cuda_um::Runtime::open().unwrap().device(0).unwrap();
/// cuda_um::UnifiedBuffer::<()>::zeroed(&device, 1);
/// ```
pub trait Element: bytemuck::Pod + Send + Sync {}

impl<T: bytemuck::Pod + Send + Sync> Element for T {}

/// What CUDA's allocators promise of an address.
pub(crate) const ALIGNMENT: usize = 256;

/// Refuses, at compile time, what no buffer can hold.
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
