//! Buffers with a home.

use std::fmt;
use std::fs::File;
use std::marker::PhantomData;
use std::sync::Arc;

use cuda_um_sys::locks::RwLock;
#[cfg(doc)]
use um_backend::cuda_um;
use um_backend::cuda_um::{PinnedBuffer, RegisteredBuffer, UnifiedBuffer};
use um_backend::cuda_um::{fork, range, resource::DeviceArena};
use um_backend::{CudaError, Element};

use crate::access::Role;
use crate::arena::Arena;
use crate::entries::Id;
use crate::entry::{Entry, Residence};
use crate::home::{Home, check_file};
use crate::host_memory::settle_on_host;
use crate::state::{Handle, Shared};

/// A buffer whose contents have a home outside of the device: pinned or registered host memory, a unified buffer, or a file. A
/// [`working_set`](crate::working_set) brings it into the [`Arena`], and its guard is an argument of kernels.
///
/// It is a [`Buffer`](um_backend::Buffer): access of the host uses the home, after a write back if the arena has newer contents. A drop loses
/// contents that are not written back: call [`write_back`](Self::write_back) before, if the home is a file or memory that stays.
pub struct Homed<T> {
    pub(crate) shared: Arc<Shared>,
    pub(crate) id: Id,
    pub(crate) len: usize,
    pub(crate) role: Role,
    pub(crate) name: Option<String>,
    _elements: PhantomData<fn() -> T>,
}

impl<T: Element> Homed<T> {
    /// Makes a buffer of `len` zeros with a home in new pinned memory. A scratch buffer gets it when it first leaves the arena, or when the
    /// host writes.
    ///
    /// # Errors
    /// [`TooLarge`](cuda_um::Error::TooLarge), [`CudaError::OutOfMemory`] for pinned memory, and errors of CUDA.
    pub fn zeroed(arena: &Arena, len: usize, role: Role) -> um_backend::Result<Self> {
        range::size_bytes::<T>(len)?;
        arena.shared.check_process("Homed::zeroed")?;
        if role == Role::Scratch {
            return Ok(Self::at(arena, len, role, Home::Nowhere));
        }
        let home = PinnedBuffer::<T>::zeroed(arena.device(), len)?;
        Self::from_pinned(arena, home, role)
    }

    /// Makes a buffer with a copy of a slice in new pinned memory.
    ///
    /// # Errors
    /// The errors of [`zeroed`](Self::zeroed).
    pub fn from_slice(arena: &Arena, elements: &[T], role: Role) -> um_backend::Result<Self> {
        let home = PinnedBuffer::from_slice(arena.device(), elements)?;
        Self::from_pinned(arena, home, role)
    }

    /// Makes a buffer whose home is the vector's memory, which is registered with CUDA.
    ///
    /// # Errors
    /// The errors of [`RegisteredBuffer::from_vec`]. The vector is lost after an error.
    pub fn from_vec(arena: &Arena, elements: Vec<T>, role: Role) -> um_backend::Result<Self> {
        let home = RegisteredBuffer::from_vec(arena.device(), elements)?;
        let len = home.len();
        Ok(Self::at(arena, len, role, Home::Memory(Box::new(home))))
    }

    /// Makes a buffer whose home is this pinned memory. In a child made by `fork`, all uses of the buffer are refused.
    ///
    /// # Errors
    /// [`RuntimeMismatch`](cuda_um::Error::RuntimeMismatch) for memory of another runtime than the arena's.
    pub fn from_pinned(
        arena: &Arena,
        home: PinnedBuffer<T>,
        role: Role,
    ) -> um_backend::Result<Self> {
        arena.check_runtime(home.device().runtime(), "the pinned memory")?;
        let len = home.len();
        Ok(Self::at(arena, len, role, Home::Memory(Box::new(home))))
    }

    /// Makes a buffer whose home is this unified buffer, which may be larger than the arena. Its pages move to the host and stay there: they get
    /// accessed-by advice for the device, and other advice ends. The arena gets copies of them.
    ///
    /// ```
    /// # use um_backend::{CudaBackend, CudaBackendConfig, sim::Sim};
    /// # let config = CudaBackendConfig::default().simulator(Sim::builder().build().unwrap());
    /// # let backend = CudaBackend::initialize_blocking(config)?;
    /// # let device = backend.device();
    /// use um_backend::cuda_um::UnifiedBuffer;
    /// use um_residency::{Arena, Budget, Homed, Input, Role, working_set};
    ///
    /// let stream = device.create_stream()?;
    /// let arena = Arena::new(device, Budget::Bytes(2 << 20))?;
    /// for layer in 0..3 {
    ///     let weights = UnifiedBuffer::from_slice(device, &[layer; 1 << 19])?;
    ///     let weights = Homed::from_unified(&arena, weights, Role::ReadOnly)?;
    ///     let guard = working_set(&stream, Input(&weights))?; // launch kernels that read `&guard`
    ///     assert_eq!(guard.to_vec()?[7], layer);
    /// }
    /// assert_eq!(arena.stats().peak_bytes, 2 << 20);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Ordering
    /// Waits for the work on the buffer, and for the move of its pages.
    ///
    /// # Errors
    /// [`RuntimeMismatch`](cuda_um::Error::RuntimeMismatch) for a buffer of another runtime than the arena's;
    /// [`NotSupported`](cuda_um::Error::NotSupported) for managed memory of a device without concurrent managed access; errors of CUDA. The
    /// unified buffer is lost after an error.
    #[doc(alias = "cudaMemAdvise")]
    pub fn from_unified(
        arena: &Arena,
        mut home: UnifiedBuffer<T>,
        role: Role,
    ) -> um_backend::Result<Self> {
        arena.shared.check_process("Homed::from_unified")?;
        arena.check_runtime(home.device().runtime(), "the unified buffer")?;
        settle_on_host(&mut home, arena.shared.outbound.stream())?;
        let len = home.len();
        Ok(Self::at(arena, len, role, Home::Memory(Box::new(home))))
    }

    /// Makes a buffer of `len` elements whose home is a part of a regular file, from byte `start` on, in the byte order of this machine. The
    /// file must be open for reading, and for a role other than [`Role::ReadOnly`] also for writing; not with `append(true)`, because Linux
    /// then ignores the place of a write, and not with `O_DIRECT`.
    ///
    /// # Ordering
    /// The file is read by the working set, on several threads and through pinned memory of the library. A write back waits for the file.
    ///
    /// # Errors
    /// [`CudaError::Io`] with [`InvalidInput`](std::io::ErrorKind::InvalidInput) for another kind of file, and for one that is opened in
    /// another way; with [`UnexpectedEof`](std::io::ErrorKind::UnexpectedEof) if the file is shorter.
    pub fn from_file(
        arena: &Arena,
        file: File,
        (start, len): (u64, usize),
        role: Role,
    ) -> um_backend::Result<Self> {
        let total_bytes = range::size_bytes::<T>(len)?;
        arena.shared.check_process("Homed::from_file")?;
        let io = |source| CudaError::Io {
            call: "Homed::from_file",
            done_bytes: 0,
            total_bytes,
            source,
        };
        check_file(&file, role).map_err(io)?;
        let has = file.metadata().map_err(io)?.len();
        if start.saturating_add(total_bytes as u64) > has {
            let reason = format!("the file has {has} bytes, and the buffer begins at byte {start}");
            let kind = std::io::ErrorKind::UnexpectedEof;
            return Err(io(std::io::Error::new(kind, reason)));
        }
        Ok(Self::at(
            arena,
            len,
            role,
            Home::File(Arc::new(file), start),
        ))
    }

    fn at(arena: &Arena, len: usize, role: Role, home: Home) -> Self {
        let shared = Arc::clone(&arena.shared);
        let mut made = Self {
            shared: Arc::clone(&shared),
            id: Id::NONE,
            len,
            role,
            name: None,
            _elements: PhantomData,
        };
        if fork::is_inherited() {
            return made;
        }
        let mut state = shared.state.lock();
        let bytes = len * size_of::<T>();
        state.largest = state.largest.max(bytes.div_ceil(DeviceArena::SLOT_BYTES));
        state.made += 1;
        let name = format!("buffer {}", state.made);
        made.id = state.entries.add(Entry {
            name: name.into(),
            bytes,
            role,
            in_file: home.is_file(),
            home: Arc::new(RwLock::new(home)),
            memory: Residence::Away,
            first: 0,
            is_dirty: false,
            readers: 0,
            pins: 0,
            is_dropped: false,
            used: 0,
            due: None,
        });
        drop(state);
        made
    }

    pub(crate) fn handle(&self) -> Handle<'_> {
        let (shared, id) = (&self.shared, self.id);
        Handle { shared, id }
    }
}

impl<T> Homed<T> {
    /// The life of the contents.
    #[must_use]
    pub fn role(&self) -> Role {
        self.role
    }

    /// The arena.
    #[must_use]
    pub fn arena(&self) -> Arena {
        Arena {
            shared: Arc::clone(&self.shared),
        }
    }

    /// Whether the buffer is in the arena now. It may leave at any time, unless a guard holds it.
    #[must_use]
    pub fn is_resident(&self) -> bool {
        self.shared.check_process("is_resident").is_ok()
            && !self.shared.state.lock().entry(self.id).is_away()
    }
}

impl<T> Drop for Homed<T> {
    fn drop(&mut self) {
        if fork::is_inherited() {
            return;
        }
        let entry = self.shared.state.lock().remove(self.id);
        // The slots of a forgotten guard are lost now: sets that wait for them are refused.
        self.shared.released.notify_all();
        // Frees the home without the lock.
        drop(entry);
    }
}

impl<T> fmt::Debug for Homed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Homed")
            .field("name", &self.name)
            .field("len", &self.len)
            .field("role", &self.role)
            .finish_non_exhaustive()
    }
}
