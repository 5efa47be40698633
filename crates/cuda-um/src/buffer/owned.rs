//! Host guards that own a reference to their buffer.
#![allow(unsafe_code, reason = "extends a borrow as long as its owner lives")]

use crate::buffer::guard::HostRef;
use std::fmt;
use std::mem::MaybeUninit;
use std::ops::Deref;
use std::sync::Arc;

/// Read access to the elements of a shared buffer for the host: a [`HostRef`] that keeps its buffer alive, so it has no lifetime.
///
/// While the guard lives, the buffer has more than one owner, so [`Arc::get_mut`] gives no way to write it. As [`HostRef`], it stays on its
/// thread, and on a device without concurrent managed access it holds launches off.
///
/// ```
/// # let device = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env().unwrap().table())?.device(0)?;
/// use cuda_um::{Result, UnifiedBuffer};
/// use std::{ops::Deref, sync::Arc};
///
/// struct Tensor(Arc<UnifiedBuffer<f32>>);
///
/// impl Tensor {
///     fn data(&self) -> Result<impl Deref<Target = [f32]> + use<>> {
///         self.0.host_owned()
///     }
/// }
///
/// let tensor = Tensor(Arc::new(UnifiedBuffer::from_slice(&device, &[1.0, 2.0])?));
/// let data = tensor.data()?;
/// drop(tensor);
/// assert_eq!(data[1], 2.0);
/// # Ok::<(), cuda_um::Error>(())
/// ```
///
/// ```compile_fail
/// # let device = cuda_um::Runtime::open().unwrap().device(0).unwrap();
/// let buffer = std::sync::Arc::new(cuda_um::UnifiedBuffer::<u8>::zeroed(&device, 4).unwrap());
/// let guard = buffer.host_owned().unwrap();
/// std::thread::spawn(move || guard[0]);
/// ```
pub struct HostOwned<T: 'static, B: ?Sized> {
    /// Initialised until the drop. It borrows from the owner, which may be freed while this struct is an argument of a function (`drop`); a
    /// plain reference there would have to stay valid until the function returns.
    guard: MaybeUninit<HostRef<'static, T>>,
    owner: Arc<B>,
}

impl<T: 'static, B: ?Sized> HostOwned<T, B> {
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
        // exclusively while `owner` lives. The guard is dropped before it, and leaves this struct only as a borrow of it.
        let guard = unsafe { std::mem::transmute::<HostRef<'_, T>, HostRef<'static, T>>(guard) };
        Ok(Self {
            guard: MaybeUninit::new(guard),
            owner,
        })
    }

    /// Returns the owner of the buffer.
    pub fn owner(&self) -> &Arc<B> {
        &self.owner
    }
}

impl<T: 'static, B: ?Sized> Deref for HostOwned<T, B> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: it is initialised until the drop.
        unsafe { self.guard.assume_init_ref() }
    }
}

impl<T: 'static, B: ?Sized> Drop for HostOwned<T, B> {
    fn drop(&mut self) {
        // SAFETY: it is initialised, and not used again. The owner is dropped after this.
        unsafe { self.guard.assume_init_drop() };
    }
}

impl<T: fmt::Debug + 'static, B: ?Sized> fmt::Debug for HostOwned<T, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
