//! A slice for the host that keeps its buffer alive.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use cuda_um::{HostRef, MemoryKind};

use crate::buffer::Buffer;
use crate::dtype::Element;
use crate::erased::ErasedBuffer;
use crate::error::{CudaError, Result};
use crate::memory::BufferMemory;

/// The elements of a shared buffer, for the host to read. It derefs to a slice, and has no lifetime: it keeps the buffer, so that a tensor can
/// return it.
///
/// As [`HostView`](crate::HostView), it borrows the memory, or holds a copy of memory that the host cannot access.
///
/// # Examples
/// ```
/// use std::ops::Deref;
/// use std::sync::Arc;
/// use um_backend::{Buffer, BufferKind, CudaBackend, CudaBackendConfig, HostOwned, Result};
///
/// struct Tensor(Arc<dyn Buffer<f32>>);
///
/// impl Tensor {
///     fn data(&self) -> Result<impl Deref<Target = [f32]> + use<>> {
///         HostOwned::of(&self.0)
///     }
/// }
///
/// let backend = CudaBackend::initialize_blocking(CudaBackendConfig::default())?;
/// let tensor = Tensor(backend.create_from(BufferKind::Unified, &[1.0, 2.0])?.into());
/// assert_eq!(tensor.data()?[1], 2.0);
/// # Ok::<(), um_backend::CudaError>(())
/// ```
pub struct HostOwned<T: Element, B: ?Sized + 'static = dyn Buffer<T>>(Elements<T, B>);

// `B` is `'static`, as for the guard of `cuda_um`, so that no lifetime is forgotten; and invariant, by `Look`.
enum Elements<T: Element, B: ?Sized + 'static> {
    Guard(cuda_um::HostOwned<T, B>),
    Host(Arc<B>, Look<T, B>),
    Copy(Vec<T>),
}

/// The elements of an owner that has plain memory of the CPU.
type Look<T, B> = fn(&B) -> BufferMemory<'_, T>;

impl<T: Element> HostOwned<T> {
    /// Borrows the elements of a buffer.
    ///
    /// # Ordering
    /// Waits for earlier writes of the buffer.
    ///
    /// # Errors
    /// As for [`Buffer::host`].
    pub fn of(buffer: &Arc<dyn Buffer<T>>) -> Result<Self> {
        Self::new(buffer, |buffer| buffer.memory(), |buffer| buffer.to_vec())
    }
}

impl<T: Element> HostOwned<T, ErasedBuffer> {
    /// Borrows the elements of an erased buffer.
    ///
    /// # Ordering
    /// Waits for earlier writes of the buffer.
    ///
    /// # Errors
    /// As for [`ErasedBuffer::typed`] and [`Buffer::host`].
    pub fn of_erased(buffer: &Arc<ErasedBuffer>) -> Result<Self> {
        buffer.check_type::<T>()?;
        Self::new(
            buffer,
            |buffer| buffer.bytes().memory().cast(),
            |buffer| buffer.typed()?.to_vec(),
        )
    }
}

impl<T: Element, B: ?Sized + 'static> HostOwned<T, B> {
    fn new(owner: &Arc<B>, look: Look<T, B>, copy: fn(&B) -> Result<Vec<T>>) -> Result<Self> {
        if let BufferMemory::Host(_) = look(owner) {
            return Ok(Self(Elements::Host(Arc::clone(owner), look)));
        }
        fn guard<'a, T: Element>(
            memory: BufferMemory<'a, T>,
        ) -> Result<HostRef<'a, T>, Option<CudaError>> {
            match memory {
                BufferMemory::Cuda(view) if view.kind() != MemoryKind::Device => {
                    view.host().map_err(|error| Some(error.into()))
                }
                _ => Err(None),
            }
        }
        match cuda_um::HostOwned::new(Arc::clone(owner), |owner| guard(look(owner))) {
            Ok(guard) => Ok(Self(Elements::Guard(guard))),
            Err(Some(error)) => Err(error),
            Err(None) => Ok(Self(Elements::Copy(copy(owner)?))),
        }
    }

    /// Whether the elements are a copy, because the host cannot access the buffer's memory.
    #[must_use]
    pub fn is_copy(&self) -> bool {
        matches!(self.0, Elements::Copy(_))
    }
}

impl<T: Element, B: ?Sized + 'static> Deref for HostOwned<T, B> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match &self.0 {
            Elements::Guard(guard) => guard,
            Elements::Host(owner, look) => match look(owner) {
                BufferMemory::Host(elements) => elements,
                // The memory of a buffer does not change, except of an implementation that breaks the contract.
                BufferMemory::Cuda(_) | BufferMemory::Opaque => &[],
            },
            Elements::Copy(elements) => elements,
        }
    }
}

impl<T: Element, B: ?Sized + 'static> fmt::Debug for HostOwned<T, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
