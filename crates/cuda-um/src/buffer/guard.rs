//! Host guards: access to a buffer by the CPU, while no device uses it in a conflicting way.
#![allow(unsafe_code, reason = "makes slices of a buffer's memory")]

use crate::Element;
use crate::buffer::future::until_free;
use crate::buffer::view::{View, ViewMut};
use crate::context::observer::HostUse;
use crate::context::tracker::Access;
use crate::error::{Error, Result};
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
    _observed: HostUse<'a>,
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
/// buffer.fill_on(1, &stream).unwrap();
/// guard[0] = 2;
/// ```
pub struct HostMut<'a, T> {
    elements: &'a mut [T],
    _access: HostAccess<'a>,
    _observed: HostUse<'a>,
    _on_this_thread: PhantomData<*const ()>,
}

impl<'a, T: Element> HostRef<'a, T> {
    /// Waits for work that writes or moves the buffer.
    pub(super) fn wait(view: View<'a, T>) -> Result<Self> {
        check_host(view)?;
        let observed = HostUse::begin(view.part(Access::Read), false);
        let access = view.raw.wait_for_host(Access::Read)?;
        Ok(Self::new(view, access, observed))
    }

    /// Refuses to wait.
    pub(super) fn try_now(view: View<'a, T>) -> Result<Self> {
        check_host(view)?;
        let access = view.raw.try_for_host(Access::Read)?;
        let observed = HostUse::begin(view.part(Access::Read), true);
        Ok(Self::new(view, access, observed))
    }

    /// Awaits the work.
    pub(super) async fn when_free(view: View<'a, T>) -> Result<Self> {
        until_free(view.raw, Access::Read, || Self::try_now(view)).await
    }

    fn new(view: View<'a, T>, access: HostAccess<'a>, observed: HostUse<'a>) -> Self {
        observed.waited();
        let elements = match view.is_empty() {
            true => &[],
            // SAFETY: the view's elements are initialised, aligned, and at an address for the host (`check_host`). No device writes them now
            // (`access`), and a new write would need `&mut` while they are borrowed.
            false => unsafe { std::slice::from_raw_parts(view.as_ptr(), view.len()) },
        };
        Self {
            elements,
            _access: access,
            _observed: observed,
            _on_this_thread: PhantomData,
        }
    }
}

impl<'a, T: Element> HostMut<'a, T> {
    /// Waits for all work on the buffer.
    pub(super) fn wait(view: ViewMut<'a, T>) -> Result<Self> {
        check_host(view.as_view())?;
        let observed = HostUse::begin(view.part(Access::Write), false);
        let access = view.raw.wait_for_host(Access::Write)?;
        Ok(Self::new(view, access, observed))
    }

    /// Refuses to wait.
    pub(super) fn try_now(view: ViewMut<'a, T>) -> Result<Self> {
        check_host(view.as_view())?;
        let access = view.raw.try_for_host(Access::Write)?;
        let observed = HostUse::begin(view.part(Access::Write), true);
        Ok(Self::new(view, access, observed))
    }

    /// Awaits the work.
    pub(super) async fn when_free(view: ViewMut<'a, T>) -> Result<Self> {
        // SAFETY: an attempt that fails keeps no view, and no attempt follows one that succeeds.
        let attempt = || Self::try_now(unsafe { view.duplicate() });
        until_free(view.raw, Access::Write, attempt).await
    }

    fn new(mut view: ViewMut<'a, T>, access: HostAccess<'a>, observed: HostUse<'a>) -> Self {
        observed.waited();
        let elements = match view.is_empty() {
            true => &mut [],
            // SAFETY: the view's elements are initialised, aligned, and at an address for the host (`check_host`). No device uses them now
            // (`access`), and a new use would need a borrow.
            false => unsafe { std::slice::from_raw_parts_mut(view.as_mut_ptr(), view.len()) },
        };
        Self {
            elements,
            _access: access,
            _observed: observed,
            _on_this_thread: PhantomData,
        }
    }
}

/// Refuses memory that only the device can use.
fn check_host<T>(view: View<'_, T>) -> Result<()> {
    if !view.raw.is_device_memory() {
        return Ok(());
    }
    Err(Error::NotSupported {
        what: format!("access by the host to buffer {}", view.buffer_id()),
        needs: "managed, pinned or registered memory (or a copy: `copy_to_host`, `to_vec`)"
            .to_owned(),
        have: view.kind_in_words(),
    })
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
