//! Options of a load.

use std::fmt;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use crate::info::TensorInfo;

type Only = dyn Fn(&str) -> bool + Send + Sync;
type Slices = dyn Fn(&TensorInfo) -> Option<(usize, Range<usize>)> + Send + Sync;
type Progress = dyn Fn(u64, u64) -> ControlFlow<()> + Send + Sync;

/// What [`Weights::load`](crate::Weights::load) loads, and how.
///
/// ```
/// use um_weights::LoadOptions;
///
/// // One of eight ranks: its eighth of the first dimension of each matrix of a layer.
/// let rank = 3;
/// let options = LoadOptions::default()
///     .threads(8)
///     .bytes_in_flight(256 << 20)
///     .only(|name| name.starts_with("layers."))
///     .slices(move |tensor| match tensor.shape() {
///         [rows, _] => Some((0, rows * rank / 8..rows * (rank + 1) / 8)),
///         _ => None,
///     });
/// // SAFETY: nothing changes the files while their tensors are in use.
/// let mapped = unsafe { LoadOptions::default().map_files() };
/// ```
#[derive(Clone)]
pub struct LoadOptions {
    pub(crate) only: Arc<Only>,
    pub(crate) slices: Arc<Slices>,
    pub(crate) progress: Arc<Progress>,
    pub(crate) bytes_in_flight: usize,
    pub(crate) threads: usize,
    pub(crate) is_mapped: bool,
    pub(crate) is_managed: bool,
}

impl Default for LoadOptions {
    /// All tensors as a whole, 512 MiB in flight, with the threads of the device's
    /// [`TransferOptions`](um_backend::cuda_um::buffer::TransferOptions).
    fn default() -> Self {
        Self {
            only: Arc::new(|_| true),
            slices: Arc::new(|_| None),
            progress: Arc::new(|_, _| ControlFlow::Continue(())),
            bytes_in_flight: 512 << 20,
            threads: usize::MAX,
            is_mapped: false,
            is_managed: false,
        }
    }
}

impl LoadOptions {
    /// Loads only the tensors for whose name this returns true.
    #[must_use]
    pub fn only(mut self, only: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        self.only = Arc::new(only);
        self
    }

    /// Loads a slice of the tensors for which this returns one: a dimension, and a range of it. Nothing else of the tensor is read; in the buffer the
    /// elements of the slice follow each other. A range of the last dimension of a quantised tensor is whole blocks.
    #[must_use]
    pub fn slices(
        mut self,
        slices: impl Fn(&TensorInfo) -> Option<(usize, Range<usize>)> + Send + Sync + 'static,
    ) -> Self {
        self.slices = Arc::new(slices);
        self
    }

    /// Calls this after each round of pieces, with the bytes that were read and those of the load, on the thread that loads. The load stops if it
    /// returns [`Break`](ControlFlow::Break).
    #[must_use]
    pub fn progress(
        mut self,
        progress: impl Fn(u64, u64) -> ControlFlow<()> + Send + Sync + 'static,
    ) -> Self {
        self.progress = Arc::new(progress);
        self
    }

    /// Sets how many bytes are read ahead: half of them are allocated and read at a time, while the other half is allocated; and
    /// [`load_each`](crate::Weights::load_each) has at most so many that were not taken. A larger tensor is loaded by itself.
    #[must_use]
    pub fn bytes_in_flight(mut self, bytes: usize) -> Self {
        self.bytes_in_flight = bytes;
        self
    }

    /// Sets the largest number of threads that read, at least 1.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads.max(1);
        self
    }

    /// Loads unified buffers into managed memory also where the device reads the host's memory, in which they are memory of the system otherwise.
    /// Other libraries know managed memory on each device (`cudaPointerGetAttributes`, DLPack).
    #[must_use]
    pub fn managed(mut self, managed: bool) -> Self {
        self.is_managed = managed;
        self
    }

    /// Uses the mapped files themselves as read-only unified buffers on devices with pageable memory access: no byte is read or copied before its
    /// first use. Other devices, other kinds of buffers, slices with gaps, and tensors that are not aligned for their type in the file, are
    /// loaded, and everything if [`managed`](Self::managed) is set. A tensor in a mapped file is not aligned to 256 bytes.
    ///
    /// # Safety
    ///
    /// Until the buffers are dropped, no process writes to the files or truncates them
    /// ([`UnifiedBuffer::map_file`](um_backend::UnifiedBuffer::map_file)).
    #[allow(unsafe_code, reason = "the caller's promise is required")]
    #[must_use]
    pub unsafe fn map_files(mut self) -> Self {
        self.is_mapped = true;
        self
    }
}

impl fmt::Debug for LoadOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadOptions")
            .field("bytes_in_flight", &self.bytes_in_flight)
            .field("threads", &self.threads)
            .finish_non_exhaustive()
    }
}
