//! Host guards that own a reference to their buffer.
#![allow(unsafe_code, reason = "extends a borrow as long as its owner lives")]

use crate::buffer::guard::{Guard, HostMut, HostRef};
use crate::error::Result;
use std::fmt;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

// Variance: both types forget the lifetime of a guard that borrows from `B`. The guard may borrow from whatever `B` borrows, and subtyping
// could change that lifetime in the type (`fn(&'x ())` is a subtype of `fn(&'static ())`). So `B` is `'static`, and borrows nothing.

/// Read access to the elements of a shared buffer for the host: a [`HostRef`] that keeps its buffer alive, so it has no lifetime. Meanwhile the
/// buffer has more than one owner, so [`Arc::get_mut`] gives no way to write it.
///
/// ```
/// # let device = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env().unwrap().table())?.device(0)?;
/// use cuda_um::{UnifiedBuffer, buffer::HostOwned};
///
/// let buffer = std::sync::Arc::new(UnifiedBuffer::from_slice(&device, &[1.0, 2.0])?);
/// let data = HostOwned::new(buffer, |buffer| buffer.host())?; // a value, which a function can return
/// assert_eq!(data[1], 2.0);
/// # Ok::<(), cuda_um::Error>(())
/// ```
pub type HostOwned<T, B> = Kept<HostRef<'static, T>, Arc<B>>;

/// A guard and its owner.
pub struct Kept<G: 'static, O: 'static> {
    /// Initialised until the drop. It borrows from the owner, which may be freed while this struct is an argument of a function (`drop`); a
    /// plain reference there would have to stay valid until the function returns.
    guard: MaybeUninit<G>,
    owner: O,
}

impl<G: 'static, O: 'static> Kept<G, O> {
    pub(super) fn of(guard: G, owner: O) -> Self {
        let guard = MaybeUninit::new(guard);
        Self { guard, owner }
    }

    pub(super) fn guard(&self) -> &G {
        // SAFETY: it is initialised until the drop. It leaves this struct only as a borrow of it.
        unsafe { self.guard.assume_init_ref() }
    }
}

impl<S: 'static, C: 'static, O: 'static> Kept<Guard<'static, S, C>, O> {
    /// Returns true if the elements are a copy, because the host cannot access the buffer's memory.
    pub fn is_copy(&self) -> bool {
        self.guard().is_copy()
    }
}

impl<G: Deref + 'static, O: 'static> Deref for Kept<G, O> {
    type Target = G::Target;

    fn deref(&self) -> &G::Target {
        self.guard()
    }
}

impl<G: DerefMut + 'static, O: 'static> DerefMut for Kept<G, O> {
    fn deref_mut(&mut self) -> &mut G::Target {
        // SAFETY: as for `guard`.
        unsafe { self.guard.assume_init_mut() }
    }
}

impl<G: 'static, O: 'static> Drop for Kept<G, O> {
    fn drop(&mut self) {
        // SAFETY: it is initialised, and not used again. The owner, from which it borrows, is dropped after this, also if it panics.
        unsafe { self.guard.assume_init_drop() };
    }
}

impl<G: fmt::Debug + 'static, O: 'static> fmt::Debug for Kept<G, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.guard().fmt(f)
    }
}

impl<T: 'static, B: ?Sized + 'static> HostOwned<T, B> {
    /// Borrows a guard from an object that contains buffers.
    ///
    /// # Errors
    ///
    /// The errors of `borrow`.
    pub fn new<E>(
        owner: Arc<B>,
        borrow: impl for<'b> FnOnce(&'b B) -> Result<HostRef<'b, T>, E>,
    ) -> Result<Self, E> {
        let guard = borrow(&owner)?;
        // SAFETY: the guard borrows from the object behind the `Arc`, whose address does not change, and which is neither dropped nor borrowed
        // exclusively while `owner` lives. The guard is dropped before it, and leaves the result only as a borrow of it.
        let guard = unsafe { std::mem::transmute::<HostRef<'_, T>, HostRef<'static, T>>(guard) };
        Ok(Self::of(guard, owner))
    }

    /// Returns the owner of the buffer.
    pub fn owner(&self) -> &Arc<B> {
        &self.owner
    }
}

/// Read and write access to the elements of a buffer for the host: a [`HostMut`] that owns its buffer, so it has no lifetime.
pub type HostOwnedMut<T, B> = Kept<HostMut<'static, T>, Leaked<B>>;

/// A `Box`, and not one, because a move of a `Box` would end the borrow.
pub struct Leaked<B>(NonNull<B>);

impl<B> Drop for Leaked<B> {
    fn drop(&mut self) {
        // SAFETY: the pointer is that of a box. The guard, which borrows from it, is dropped or lost before.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

impl<T: 'static, B: 'static> HostOwnedMut<T, B> {
    /// Borrows a guard from an object that contains buffers.
    ///
    /// # Errors
    ///
    /// The errors of `borrow`; the owner is then dropped.
    pub fn new<E>(
        owner: Box<B>,
        borrow: impl for<'b> FnOnce(&'b mut B) -> Result<HostMut<'b, T>, E>,
    ) -> Result<Self, E> {
        let mut owner = Leaked(NonNull::from(Box::leak(owner)));
        // SAFETY: the object lives until this value is dropped, and only the guard borrows it until then: an error of any type `E`, or the
        // payload of a panic, cannot.
        let guard = borrow(unsafe { owner.0.as_mut() })?;
        // SAFETY: as above; the guard leaves this value only as a borrow of it.
        let guard = unsafe { std::mem::transmute::<HostMut<'_, T>, HostMut<'static, T>>(guard) };
        Ok(Self::of(guard, owner))
    }

    /// Ends the access, and drops the owner. A copy is written back.
    ///
    /// # Errors
    ///
    /// The errors of [`HostMut::close`].
    pub fn close(self) -> Result<()> {
        let this = ManuallyDrop::new(self);
        // SAFETY: neither is used again through `this`. A panic of the guard's write back drops the owner after the guard.
        let (_owner, guard) =
            unsafe { (std::ptr::read(&this.owner), this.guard.assume_init_read()) };
        guard.close()
    }
}
