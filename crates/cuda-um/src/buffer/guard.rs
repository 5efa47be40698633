//! Host guards: access to a buffer by the CPU, while no device uses it in a conflicting way.
#![allow(unsafe_code, reason = "makes slices of a buffer's memory")]

use crate::DeviceCopy;
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
/// It borrows the memory, or a crate above made it of a slice or a copy (`HostRef::from`).
///
/// - While the guard lives, code that writes the buffer does not compile; kernels that read the buffer may run.
/// - On a system with a device that has no concurrent managed access, launches on that device, and copies between buffers that use managed
///   memory, are refused or wait while a guard of managed memory lives ([`NonConcurrentAccess`](crate::NonConcurrentAccess)).
/// - The guard stays on its thread; the slice behind it may be shared as any slice.
pub type HostRef<'a, T> = Guard<'a, &'a [T], Vec<T>>;

/// Read and write access to the elements of a buffer for the host: derefs to `&mut [T]`. The rules are those of [`HostRef`], and no other code
/// that uses the buffer compiles while the guard lives.
///
/// It borrows the memory, or has a copy of memory that the host cannot access ([`is_copy`](Guard::is_copy)). [`close`](Self::close) writes a
/// copy back and returns the error; a drop writes it back, too, but its error is lost, and a panic that begins while the guard lives writes
/// nothing back.
pub type HostMut<'a, T> = Guard<'a, &'a mut [T], WrittenBack<'a, T>>;

/// A [`HostRef`] or a [`HostMut`]: a slice `S` of a buffer, or a copy `C`.
// Its variance is that of `S`.
pub struct Guard<'a, S, C> {
    elements: Elements<'a, S, C>,
    _on_this_thread: PhantomData<*const ()>,
}

enum Elements<'a, S, C> {
    Borrowed {
        elements: S,
        /// For memory of this crate.
        _access: Option<(HostAccess<'a>, HostUse<'a>)>,
    },
    Copy(C),
}

/// A copy, and the function that writes it back.
pub struct WrittenBack<'a, T> {
    elements: Vec<T>,
    write_back: Option<WriteBack<'a, T>>,
    /// The guard was made in a destructor that a panic runs.
    is_of_panic: bool,
}

type WriteBack<'a, T> = Box<dyn FnOnce(&[T]) -> Result<()> + 'a>;

impl<T> WrittenBack<'_, T> {
    fn finish(&mut self) -> Result<()> {
        match self.write_back.take() {
            Some(write_back) => write_back(&self.elements),
            None => Ok(()),
        }
    }
}

impl<T> Drop for WrittenBack<'_, T> {
    fn drop(&mut self) {
        // The function may be foreign code, whose second panic would end the process.
        if self.is_of_panic || !std::thread::panicking() {
            // `close` returns the error.
            let _ = self.finish();
        }
    }
}

impl<T> Deref for WrittenBack<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.elements
    }
}

impl<T> DerefMut for WrittenBack<'_, T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.elements
    }
}

impl<'a, S, C> Guard<'a, S, C> {
    fn of(elements: Elements<'a, S, C>) -> Self {
        Self {
            elements,
            _on_this_thread: PhantomData,
        }
    }

    fn borrowed(elements: S, access: Option<(HostAccess<'a>, HostUse<'a>)>) -> Self {
        Self::of(Elements::Borrowed {
            elements,
            _access: access,
        })
    }

    /// Returns true if the elements are a copy, because the host cannot access the buffer's memory.
    pub fn is_copy(&self) -> bool {
        matches!(self.elements, Elements::Copy(_))
    }
}

/// A slice of the host as it is.
impl<S, C> From<S> for Guard<'_, S, C> {
    fn from(elements: S) -> Self {
        Self::borrowed(elements, None)
    }
}

/// A copy of memory that the host cannot access.
impl<T> From<Vec<T>> for HostRef<'_, T> {
    fn from(elements: Vec<T>) -> Self {
        Self::of(Elements::Copy(elements))
    }
}

impl<'a, T> HostMut<'a, T> {
    /// Makes a guard of a copy of memory that the host cannot access. `write_back` gets the elements once, from [`close`](Self::close) or
    /// the drop.
    pub fn of_copy(elements: Vec<T>, write_back: impl FnOnce(&[T]) -> Result<()> + 'a) -> Self {
        Self::of(Elements::Copy(WrittenBack {
            elements,
            write_back: Some(Box::new(write_back)),
            is_of_panic: std::thread::panicking(),
        }))
    }

    /// Ends the access. A copy is written back.
    ///
    /// # Errors
    ///
    /// The errors of the copy to the buffer, if the elements are a copy.
    pub fn close(self) -> Result<()> {
        match self.elements {
            Elements::Borrowed { .. } => Ok(()),
            Elements::Copy(mut copy) => copy.finish(),
        }
    }
}

/// Begins an access to memory that not only the device can use: `waits` for the work in its way, or refuses to wait.
fn access<T>(
    view: View<'_, T>,
    access: Access,
    waits: bool,
) -> Result<(HostAccess<'_>, HostUse<'_>)> {
    let (raw, bytes) = (view.raw, view.bytes());
    if raw.is_device_memory() {
        return Err(Error::NotSupported {
            what: format!("access by the host to buffer {}", raw.id()),
            needs: "managed, pinned or registered memory (or a copy: `copy_to_host`, `to_vec`)"
                .to_owned(),
            have: raw.kind_in_words(),
        });
    }
    let call = match (access, waits) {
        (Access::Read, true) => "host",
        (Access::Read, false) => "try_host",
        (_, true) => "host_mut",
        (_, false) => "try_host_mut",
    };
    HostUse::begin(view.part(access), waits, || {
        raw.for_host(&bytes, (access, call), waits)
    })
}

impl<'a, T: DeviceCopy> HostRef<'a, T> {
    /// Waits for work that writes or moves the buffer, or refuses to wait.
    pub(super) fn begin(view: View<'a, T>, waits: bool) -> Result<Self> {
        let access = access(view, Access::Read, waits)?;
        let elements = match view.is_empty() {
            true => &[],
            // SAFETY: the view's elements are initialised, aligned, and at an address for the host. No device writes them now
            // (`access`), and a new write would need `&mut` while they are borrowed.
            false => unsafe { std::slice::from_raw_parts(view.as_ptr(), view.len()) },
        };
        Ok(Self::borrowed(elements, Some(access)))
    }

    pub(super) async fn when_free(view: View<'a, T>) -> Result<Self> {
        until_free(view.raw, Access::Read, || Self::begin(view, false)).await
    }
}

impl<'a, T: DeviceCopy> HostMut<'a, T> {
    /// Waits for all work on the buffer, or refuses to wait.
    pub(super) fn begin(view: ViewMut<'a, T>, waits: bool) -> Result<Self> {
        let start = view.address().cast();
        let view = view.into_view();
        let access = access(view, Access::Write, waits)?;
        let elements = match view.is_empty() {
            true => &mut [],
            // SAFETY: the view's elements are initialised, aligned, and at an address for the host. No device uses them now
            // (`access`), and a new use would need a borrow.
            false => unsafe { std::slice::from_raw_parts_mut(start, view.len()) },
        };
        Ok(Self::borrowed(elements, Some(access)))
    }

    pub(super) async fn when_free(view: ViewMut<'a, T>) -> Result<Self> {
        // SAFETY: an attempt that fails keeps no view, and no attempt follows one that succeeds.
        let attempt = || Self::begin(unsafe { view.duplicate() }, false);
        until_free(view.raw, Access::Write, attempt).await
    }
}

impl<S: Deref, C: Deref<Target = S::Target>> Deref for Guard<'_, S, C> {
    type Target = S::Target;

    fn deref(&self) -> &S::Target {
        match &self.elements {
            Elements::Borrowed { elements, .. } => elements,
            Elements::Copy(elements) => elements,
        }
    }
}

impl<S: DerefMut, C: DerefMut<Target = S::Target>> DerefMut for Guard<'_, S, C> {
    fn deref_mut(&mut self) -> &mut S::Target {
        match &mut self.elements {
            Elements::Borrowed { elements, .. } => elements,
            Elements::Copy(elements) => elements,
        }
    }
}

impl<S: Deref<Target: fmt::Debug>, C: Deref<Target = S::Target>> fmt::Debug for Guard<'_, S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
