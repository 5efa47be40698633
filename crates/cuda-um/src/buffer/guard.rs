//! Host guards: access to a buffer by the CPU, while no device uses it in a conflicting way.
#![allow(unsafe_code, reason = "makes slices of a buffer's memory")]

use crate::context::observer::HostUse;
use crate::context::tracker::Access;
use crate::error::Result;
use crate::resource::allocation::Allocation;
use crate::resource::host_access::HostAccess;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

/// Read access to the elements of a buffer for the host: derefs to `&[T]`.
///
/// - While the guard lives, code that writes the buffer does not compile; kernels that read the buffer may run.
/// - On a system with a device that has no concurrent managed access, launches on that device, and copies between buffers that use managed
///   memory, are refused or wait while a guard of managed memory lives ([`NonConcurrentAccess`](crate::NonConcurrentAccess)).
/// - The guard stays on its thread; the slice behind it may be shared as any slice.
///
/// ```compile_fail
/// # let device = cuda_um::Runtime::open().unwrap().device(0).unwrap();
/// let buffer = cuda_um::UnifiedBuffer::<u8>::zeroed(&device, 4).unwrap();
/// let guard = buffer.host().unwrap();
/// std::thread::scope(|scope| scope.spawn(move || guard[0]).join());
/// ```
pub struct HostRef<'a, T> {
    elements: &'a [T],
    _access: HostAccess<'a>,
    _observed: HostUse,
    _on_this_thread: PhantomData<*const ()>,
}

/// Read and write access to the elements of a buffer for the host: derefs to `&mut [T]`.
///
/// - While the guard lives, other code that uses the buffer does not compile.
/// - On a system with a device that has no concurrent managed access, launches on that device, and copies between buffers that use managed
///   memory, are refused or wait while a guard of managed memory lives ([`NonConcurrentAccess`](crate::NonConcurrentAccess)).
/// - The guard stays on its thread; the slice behind it may be split and shared as any slice.
///
/// ```compile_fail
/// # let device = cuda_um::Runtime::open().unwrap().device(0).unwrap();
/// # let stream = device.stream().unwrap();
/// let mut buffer = cuda_um::UnifiedBuffer::<u8>::zeroed(&device, 4).unwrap();
/// let mut guard = buffer.host_mut().unwrap();
/// buffer.fill(1, &stream).unwrap();
/// guard[0] = 2;
/// ```
pub struct HostMut<'a, T> {
    elements: &'a mut [T],
    _access: HostAccess<'a>,
    _observed: HostUse,
    _on_this_thread: PhantomData<*const ()>,
}

impl<'a, T> HostRef<'a, T> {
    /// Waits for work that writes or moves the buffer.
    ///
    /// # Safety
    ///
    /// The buffer holds `len` initialised elements of `T` at an address that the host may use.
    pub(super) unsafe fn wait(raw: &'a Allocation, len: usize) -> Result<Self> {
        let observed = HostUse::begin(raw, Access::Read);
        let access = raw.wait_for_host(Access::Read)?;
        // SAFETY: the caller's promise, and no device writes the buffer now.
        Ok(unsafe { Self::new(raw, len, access, observed) })
    }

    /// # Safety
    ///
    /// The promise of `wait`.
    pub(super) unsafe fn try_now(raw: &'a Allocation, len: usize) -> Result<Self> {
        let access = raw.try_for_host(Access::Read)?;
        let observed = HostUse::begin(raw, Access::Read);
        // SAFETY: the caller's promise, and no device writes the buffer now.
        Ok(unsafe { Self::new(raw, len, access, observed) })
    }

    /// # Safety
    ///
    /// The promise of `wait`, and no device writes the buffer: a new write would need `&mut` while it is borrowed.
    unsafe fn new(
        raw: &'a Allocation,
        len: usize,
        access: HostAccess<'a>,
        observed: HostUse,
    ) -> Self {
        // SAFETY: `len` initialised elements, aligned (the allocator's promise), unchanged while borrowed (the caller's promise).
        let elements =
            unsafe { std::slice::from_raw_parts(raw.pointer().cast::<T>().as_ptr(), len) };
        Self {
            elements,
            _access: access,
            _observed: observed,
            _on_this_thread: PhantomData,
        }
    }
}

impl<'a, T> HostMut<'a, T> {
    /// Waits for all work on the buffer.
    ///
    /// # Safety
    ///
    /// The buffer holds `len` initialised elements of `T` at an address that the host may use, and `raw` is borrowed from an
    /// exclusive borrow of its owner that lasts for `'a`.
    pub(super) unsafe fn wait(raw: &'a Allocation, len: usize) -> Result<Self> {
        let observed = HostUse::begin(raw, Access::Write);
        let access = raw.wait_for_host(Access::Write)?;
        // SAFETY: the caller's promise, and no device uses the buffer now.
        Ok(unsafe { Self::new(raw, len, access, observed) })
    }

    /// # Safety
    ///
    /// The promise of `wait`.
    pub(super) unsafe fn try_now(raw: &'a Allocation, len: usize) -> Result<Self> {
        let access = raw.try_for_host(Access::Write)?;
        let observed = HostUse::begin(raw, Access::Write);
        // SAFETY: the caller's promise, and no device uses the buffer now.
        Ok(unsafe { Self::new(raw, len, access, observed) })
    }

    /// # Safety
    ///
    /// The promise of `wait`, and no device uses the buffer: a new use would need a borrow.
    unsafe fn new(
        raw: &'a Allocation,
        len: usize,
        access: HostAccess<'a>,
        observed: HostUse,
    ) -> Self {
        // SAFETY: `len` initialised elements, aligned (the allocator's promise), exclusive while borrowed (the caller's promise).
        let elements =
            unsafe { std::slice::from_raw_parts_mut(raw.pointer().cast::<T>().as_ptr(), len) };
        Self {
            elements,
            _access: access,
            _observed: observed,
            _on_this_thread: PhantomData,
        }
    }
}

impl<T> Deref for HostRef<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.elements
    }
}

impl<T> Deref for HostMut<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.elements
    }
}

impl<T> DerefMut for HostMut<'_, T> {
    fn deref_mut(&mut self) -> &mut [T] {
        self.elements
    }
}

impl<T: fmt::Debug> fmt::Debug for HostRef<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.elements.fmt(f)
    }
}

impl<T: fmt::Debug> fmt::Debug for HostMut<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.elements.fmt(f)
    }
}
