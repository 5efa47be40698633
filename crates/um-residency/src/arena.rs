//! The arena: device memory of exactly the budget.

use std::fmt;
use std::sync::Arc;

use cuda_um_sys::locks::Condvar;
use um_backend::cuda_um::{Device, Runtime, fork, resource::DeviceArena};

use crate::budget::Budget;
use crate::error::Result;
use crate::lane::Lane;
use crate::lock::Lock;
use crate::state::Shared;
use crate::stats::Stats;

/// Device memory of exactly a budget, allocated once, in which [`Homed`](crate::Homed) buffers take turns. A clone is the same arena.
///
/// The budget is a fact of allocation: the driver is never asked for more device memory.
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
    pub fn new(device: &Device, budget: Budget) -> Result<Self> {
        let slots = budget.slots(device)?;
        let bytes = slots.saturating_mul(DeviceArena::SLOT_BYTES);
        let shared = Shared {
            device: device.clone(),
            memory: DeviceArena::new(device, bytes)?,
            slots,
            inbound: Lane::new(device)?,
            outbound: Lane::new(device)?,
            state: Lock::default(),
            released: Condvar::new(),
        };
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    /// Refuses memory of another runtime.
    pub(crate) fn check_runtime(&self, of: &Runtime, what: &'static str) -> um_backend::Result<()> {
        match self.shared.device.runtime().is_same(of) {
            true => Ok(()),
            false => Err(um_backend::cuda_um::Error::RuntimeMismatch { what }),
        }
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.shared.device
    }

    /// The budget in bytes, in whole slots.
    #[must_use]
    pub fn budget_bytes(&self) -> u64 {
        self.shared.budget_bytes()
    }

    /// What the arena did so far. In a child made by `fork`, all zeros.
    #[must_use]
    pub fn stats(&self) -> Stats {
        match fork::is_inherited() {
            true => Stats::default(),
            false => self.shared.state.lock().stats,
        }
    }
}

impl fmt::Debug for Arena {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arena")
            .field("device", &self.shared.device.ordinal())
            .field("budget_bytes", &self.budget_bytes())
            .finish_non_exhaustive()
    }
}
