//! Memory by raw addresses, for frameworks whose allocators return pointers.
#![allow(
    unsafe_code,
    reason = "the framework's promises about addresses and streams are required"
)]

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use cuda_um::resource::{MemoryResource as _, PoolStats};
use cuda_um::sys::locks::{Mutex, MutexGuard};
use cuda_um::sys::{cudaStream_t, cudaStreamCaptureStatus};
use cuda_um::{Device, DeviceBuffer, MemoryKind, Pool, Stream, UnifiedBuffer, View};

use crate::error::{CudaError, Result};

/// An allocator that a framework can plug in: it gives and takes addresses, in the order of the framework's streams.
///
/// The memory is a [`Pool`]'s. A block that is freed on one stream and allocated on another is used there only after the work of the first. Each
/// call records events and makes a stream wait, so a framework that allocates often keeps a cache of its own above. Profiles show the blocks by [`name`](Self::name), with every migration.
///
/// # Examples
/// ```
/// use um_backend::allocator::Allocator;
/// use um_backend::cuda_um::{MemoryKind, Pool, PoolOptions};
/// use um_backend::{CudaBackend, CudaBackendConfig};
///
/// let backend = CudaBackend::initialize_blocking(CudaBackendConfig::default())?;
/// let device = backend.device();
/// let pool = Pool::new(device, MemoryKind::Managed, PoolOptions::default())?;
/// let allocator = Allocator::new(pool)?.name("framework");
/// let stream = device.create_stream()?; // stands for a stream of the framework
/// // SAFETY: the stream lives, and nothing uses the memory after it is freed.
/// unsafe {
///     let address = allocator.allocate(1 << 20, stream.as_raw())?;
///     // … the framework's kernels use `address` on this stream …
///     allocator.free(address, stream.as_raw())?;
/// }
/// assert_eq!(allocator.stats().live_bytes, 0);
/// # Ok::<(), um_backend::CudaError>(())
/// ```
#[doc(alias = "cudaMallocAsync")]
#[doc(alias = "CUDAPluggableAllocator")]
#[derive(Debug)]
pub struct Allocator {
    pool: Pool,
    prefetch: bool,
    name: Option<Arc<str>>,
    /// The blocks that the framework has, by their addresses.
    live: Mutex<Blocks>,
    /// Streams of the library that stand for those of the framework, which may destroy its streams at any time: the uses of a block are on these.
    lanes: [OnceLock<Stream>; 8],
}

/// Whether a handle is `cudaStreamPerThread`.
fn is_per_thread(stream: cudaStream_t) -> bool {
    stream.addr() == 2
}

/// By their addresses.
type Blocks = BTreeMap<usize, Block>;

/// The memory that a framework has, for [`prefetches`](cuda_um::managed::PrefetchBatch) and advice. While this lives, other threads wait in
/// [`Allocator::allocate`] and [`Allocator::free`], and this thread must not call them.
pub struct Held<'a>(MutexGuard<'a, Blocks>);

impl Held<'_> {
    /// The bytes of these addresses; `None` if they are not within one block. Advice for them ends with the block.
    ///
    /// # Safety
    /// The view is used for hints only, or no work of the framework writes the bytes meanwhile.
    pub unsafe fn view(&self, addresses: Range<usize>) -> Option<View<'_, u8>> {
        let (start, block) = self.0.range(..=addresses.start).next_back()?;
        let bytes = addresses.start - start..addresses.end.checked_sub(*start)?;
        let whole = match block {
            Block::Unified(buffer) => buffer.as_view(),
            Block::Device(buffer) => buffer.as_view(),
        };
        whole.slice(bytes).ok()
    }
}

/// Whether work on a stream of another library is captured into a graph: no fence is set there.
///
/// # Safety
/// The stream is live, or 0, 1 or 2 for a default stream as in CUDA.
pub unsafe fn is_captured(device: &Device, stream: cudaStream_t) -> bool {
    let ask = device.runtime().table().cudaStreamIsCapturing;
    let is_legacy_default = stream.addr() < 2;
    let mut status = cudaStreamCaptureStatus(0);
    // SAFETY: the stream is guaranteed by the caller; the call writes the status, and leaves it after an error, which the next call with the
    // stream reports.
    ask.is_some_and(|ask| !is_legacy_default && unsafe { ask(stream, &mut status) }.0 == 0)
        && status.0 != 0
}

/// Memory that the framework has.
#[derive(Debug)]
enum Block {
    Unified(UnifiedBuffer<u8>),
    Device(DeviceBuffer<u8>),
}

impl Allocator {
    /// Makes an allocator over a pool of managed or of device memory.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] for a pool of pinned memory.
    pub fn new(pool: Pool) -> Result<Self> {
        match pool.kind() {
            MemoryKind::Managed | MemoryKind::Device => Ok(Self {
                pool,
                prefetch: true,
                name: None,
                live: Default::default(),
                lanes: Default::default(),
            }),
            other => Err(CudaError::InvalidArgument {
                what: "the pool of an allocator",
                value: other.to_string(),
                reason: "kernels of a framework use managed memory or device memory".to_owned(),
            }),
        }
    }

    /// Sets if new managed memory is prefetched to the device, on the stream of the allocation. Otherwise its first kernel has a page fault for
    /// each piece. The default is true.
    #[must_use]
    pub fn prefetch(mut self, prefetch: bool) -> Self {
        self.prefetch = prefetch;
        self
    }

    /// Sets the name of the memory in profiles and errors.
    #[must_use]
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The device of the memory.
    pub fn device(&self) -> &Device {
        self.pool.device()
    }

    /// The pool's statistics.
    pub fn stats(&self) -> PoolStats {
        self.pool.stats()
    }

    /// Returns the free memory of the pool to CUDA, and returns its size in bytes.
    pub fn trim(&self) -> usize {
        self.pool.trim()
    }

    /// The memory that the framework has.
    ///
    /// # Errors
    /// [`Forked`](CudaError::Forked).
    pub fn held(&self) -> Result<Held<'_>> {
        cuda_um::fork::check("Allocator::held")?;
        Ok(Held(self.live.lock()))
    }

    /// Allocates `bytes` bytes with arbitrary contents, at a multiple of 256. Null for 0 bytes.
    ///
    /// # Ordering
    /// Work that is enqueued on `stream` after the call runs after all work that the memory's former owners enqueued before they freed it. Does not
    /// wait for work, except that of the former owners if `stream` is captured into a graph, or is 2 (`cudaStreamPerThread`).
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`]; [`CudaError::Foreign`] for a stream of another context; the errors of the CUDA functions. Nothing is allocated
    /// then.
    ///
    /// # Safety
    /// `stream` is a live stream of the device, 0 or 1 for its legacy default stream, or 2 for that of the thread.
    pub unsafe fn allocate(&self, bytes: usize, stream: cudaStream_t) -> Result<*mut c_void> {
        if bytes == 0 {
            return Ok(std::ptr::null_mut());
        }
        // SAFETY: the memory is the driver's, and every bit pattern is a value. Only the framework reads it, after its own writes.
        let mut block = unsafe {
            match self.pool.kind() {
                MemoryKind::Managed => {
                    Block::Unified(UnifiedBuffer::uninit_in(&self.pool, bytes)?.assume_init())
                }
                _ => Block::Device(DeviceBuffer::uninit_in(&self.pool, bytes)?.assume_init()),
            }
        };
        if let Some(name) = &self.name {
            block.set_name(name);
        }
        let lane = self.lane(stream)?;
        if let (true, Block::Unified(buffer)) = (self.prefetch, &block) {
            buffer.prefetch_on(self.device(), lane)?;
        }
        let address = block.use_on(lane)?;
        // SAFETY: guaranteed by the caller.
        match is_per_thread(stream) || unsafe { is_captured(self.device(), stream) } {
            true => lane.synchronize()?,
            false => {
                // SAFETY: guaranteed by the caller.
                let theirs = unsafe { self.device().adopt_stream(stream, ()) }?;
                theirs.wait(&lane.record()?)?;
            }
        }
        self.live.lock().insert(address.addr(), block);
        Ok(address)
    }

    /// Takes memory back. Nothing happens for null.
    ///
    /// # Ordering
    /// The memory is used again only after all work that is on `stream` when this is called, also by an allocation on another stream. Does not wait,
    /// except for the device if `stream` is 2 (`cudaStreamPerThread`).
    ///
    /// # Errors
    /// [`CudaError::Foreign`] for an address that is not of this allocator, or was freed before. After an error of CUDA, or for a stream that is
    /// captured into a graph, the memory stays allocated.
    ///
    /// # Safety
    /// - `stream` is as for [`allocate`](Self::allocate).
    /// - All work that uses the memory is on `stream`, or is ordered before work that is on it. Nothing uses the memory afterwards.
    pub unsafe fn free(&self, address: *mut c_void, stream: cudaStream_t) -> Result<()> {
        if address.is_null() {
            return Ok(());
        }
        cuda_um::fork::check("Allocator::free")?;
        let taken = self.live.lock().remove(&address.addr());
        let mut block = taken.ok_or_else(|| CudaError::Foreign {
            what: format!("the address {address:p}"),
            found: "not the first byte of memory that this allocator gave and that was not freed"
                .to_owned(),
            allowed: "an address of `Allocator::allocate`, once".to_owned(),
        })?;
        // SAFETY: guaranteed by the caller.
        match unsafe { self.is_over_on(&mut block, stream) } {
            Ok(()) => Ok(()),
            Err(error) => {
                self.live.lock().insert(address.addr(), block);
                Err(error)
            }
        }
    }

    /// Orders later uses of a block after all work that is on a stream.
    ///
    /// # Safety
    /// As for `free`.
    unsafe fn is_over_on(&self, block: &mut Block, stream: cudaStream_t) -> Result<()> {
        if is_per_thread(stream) {
            // Not tracked: it is another stream on each thread.
            return self.device().synchronize();
        }
        // SAFETY: guaranteed by the caller.
        if unsafe { is_captured(self.device(), stream) } {
            return Err(CudaError::Capture {
                call: "Allocator::free".to_owned(),
                reason: "the stream is captured into a graph, each launch of which may use the memory: free it after the graph".to_owned(),
            });
        }
        let lane = self.lane(stream)?;
        // SAFETY: guaranteed by the caller.
        let theirs = unsafe { self.device().adopt_stream(stream, ()) }?;
        lane.wait(&theirs.record()?)?;
        block.use_on(lane).map(drop)
    }

    /// The stream that stands for one of the framework's.
    fn lane(&self, stream: cudaStream_t) -> Result<&Stream> {
        let lane = &self.lanes[stream.addr() / 64 % self.lanes.len()];
        if let Some(lane) = lane.get() {
            return Ok(lane);
        }
        let new = self.device().create_stream()?;
        Ok(lane.get_or_init(|| new))
    }
}

impl Block {
    fn set_name(&mut self, name: &Arc<str>) {
        match self {
            Self::Unified(buffer) => buffer.set_name(Arc::clone(name)),
            Self::Device(buffer) => buffer.set_name(Arc::clone(name)),
        }
    }

    /// Orders later work on a stream of the library after all uses of the memory, and takes that work as one more use.
    fn use_on(&mut self, lane: &Stream) -> Result<*mut c_void> {
        // SAFETY: nothing is enqueued here. What the framework enqueues is within the memory, as the caller of `Allocator` promises.
        unsafe {
            match self {
                Self::Unified(buffer) => lane.enqueue_foreign((buffer,), |work| work.pointer(0)),
                Self::Device(buffer) => lane.enqueue_foreign((buffer,), |work| work.pointer(0)),
            }
        }
    }
}
