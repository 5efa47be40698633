//! The arena: device memory of exactly the budget.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use cuda_um_locks::Condvar;
use um_backend::cuda_um::DeviceArena;
use um_backend::{BufferDevice, CudaDevice};

use crate::budget::Budget;
use crate::error::Result;
use crate::lane::Lane;
use crate::lock::Lock;
use crate::state::Shared;
use crate::stats::Stats;

/// Device memory of exactly a budget, allocated once, in which [`Homed`](crate::Homed) buffers take turns. A clone is the same arena.
///
/// The budget is a fact of allocation: the driver is never asked for more device memory. An arena of [unified](Self::unified) buffers
/// allocates nothing, and counts.
#[derive(Clone)]
pub struct Arena {
    pub(crate) shared: Arc<Shared>,
}

impl Arena {
    /// Allocates the memory, in slots of 2 MiB.
    ///
    /// # Ordering
    /// The memory is zeroed on the device's default stream; all work in it is ordered after that.
    ///
    /// # Errors
    /// [`Error::Budget`](crate::Error::Budget) for a share outside of 0 to 1, or for less than a slot;
    /// [`CudaError::OutOfMemory`](um_backend::CudaError::OutOfMemory) with the free bytes if the device has less; errors of CUDA.
    #[doc(alias = "cudaMalloc")]
    pub fn new(device: &Arc<CudaDevice>, budget: Budget) -> Result<Self> {
        let slots = budget.slots(device)?;
        let bytes = slots.saturating_mul(DeviceArena::SLOT_BYTES);
        let memory = DeviceArena::new(device.as_cuda_um(), bytes)?;
        Self::with(device, slots, Some(memory))
    }

    /// Makes an arena for buffers of [`Homed::from_unified`](crate::Homed::from_unified), which allocates nothing: the budget bounds their
    /// pages on the device, in units of 2 MiB.
    ///
    /// A read-only buffer comes as a copy of its pages (read-mostly advice and a prefetch), and the end of the copy takes it out, without a
    /// transfer. Nothing in a stream ends a copy of pages. So the host waits for the kernels that read the buffer before it leaves, without the
    /// lock of the arena.
    ///
    /// The pages of other buffers move by prefetches, in stream order, and leave by a transfer also if no step wrote them. Contents that are not
    /// needed do not move, if CUDA can discard (13.0 and newer, and no device without concurrent managed access). They are those before a
    /// [`Write`](crate::Write), and those that a plan drops.
    ///
    /// The pages of a dropped buffer are free when the work on it is done, and until then they are beyond the budget.
    ///
    /// ```
    /// # use um_backend::{CudaBackend, CudaBackendConfig, sim::Sim};
    /// # let config = CudaBackendConfig::default().simulator(Sim::builder().build()?);
    /// # let backend = CudaBackend::initialize_blocking(config)?;
    /// # let device = backend.device();
    /// use um_backend::cuda_um::UnifiedBuffer;
    /// use um_residency::{Arena, Budget, Homed, Read, Role, working_set};
    ///
    /// let stream = device.as_cuda_um().stream()?;
    /// let arena = Arena::unified(device, Budget::Bytes(2 << 20))?;
    /// for layer in 0..3 {
    ///     let weights = UnifiedBuffer::from_slice(device.as_cuda_um(), &[layer; 1 << 19])?;
    ///     let weights = Homed::from_unified(&arena, weights, Role::ReadOnly)?;
    ///     let guard = working_set(&stream, Read(&weights))?; // launch kernels that read `&guard`
    ///     assert_eq!(guard.to_vec()?[7], layer);
    /// }
    /// assert_eq!(arena.stats().peak_bytes, 2 << 20);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Budget`](crate::Error::Budget) as for [`new`](Self::new); [`NotSupported`](um_backend::Error::NotSupported) if the device
    /// has no concurrent managed access; errors of CUDA.
    #[doc(alias = "cudaMemPrefetchAsync")]
    #[doc(alias = "cudaMemAdviseSetReadMostly")]
    #[doc(alias = "cudaMemDiscardAndPrefetchBatchAsync")]
    pub fn unified(device: &Arc<CudaDevice>, budget: Budget) -> Result<Self> {
        let slots = budget.slots(device)?;
        if !device.capabilities().concurrent_managed_access {
            return Err(um_backend::Error::NotSupported {
                what: "an arena of unified buffers".to_owned(),
                needs: "cudaDevAttrConcurrentManagedAccess".to_owned(),
                have: device.name().to_owned(),
            }
            .into());
        }
        Self::with(device, slots, None)
    }

    fn with(device: &Arc<CudaDevice>, slots: usize, memory: Option<DeviceArena>) -> Result<Self> {
        let below = device.as_cuda_um();
        let shared = Shared {
            device: BufferDevice::Cuda(Arc::clone(device)),
            cuda: Arc::clone(device),
            memory,
            slots,
            inbound: Lane::new(below)?,
            outbound: Lane::new(below)?,
            claims: Lane::new(below)?,
            drops: Lane::new(below)?,
            state: Lock::default(),
            released: Condvar::new(),
            has_pass: AtomicBool::new(false),
        };
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> &Arc<CudaDevice> {
        &self.shared.cuda
    }

    /// The budget in bytes, in whole slots.
    #[must_use]
    pub fn budget_bytes(&self) -> u64 {
        self.shared.budget_bytes()
    }

    /// The budget, for [`Program::solve`](cuda_um_plan::Program::solve).
    #[must_use]
    pub fn plan_budget(&self) -> cuda_um_plan::Budget {
        let bytes = self.budget_bytes();
        cuda_um_plan::Budget { bytes }
    }

    /// What the arena did so far. In a child made by `fork`, all zeros.
    #[must_use]
    pub fn stats(&self) -> Stats {
        match self.shared.is_inherited() {
            true => Stats::default(),
            false => self.shared.state.lock().counters.stats,
        }
    }
}

impl fmt::Debug for Arena {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arena")
            .field("device", &self.shared.cuda.ordinal())
            .field("budget_bytes", &self.budget_bytes())
            .finish_non_exhaustive()
    }
}
