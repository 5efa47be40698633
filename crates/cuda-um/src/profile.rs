//! Migrations and page faults of managed memory on a real GPU, as CUPTI counts them.
//!
//! What this module does not do: attribute records to buffers or to operations, or time them.

mod cupti;

use cupti::{Cupti, Kind};
use std::sync::atomic::{AtomicBool, Ordering};

/// Sums over all managed memory of this process since [`MigrationCounter::start`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MigrationCounts {
    /// Bytes migrated from the host to a device.
    pub bytes_to_device: u64,
    /// Bytes migrated from a device to the host.
    pub bytes_to_host: u64,
    /// Bytes migrated from one device to another.
    pub bytes_device_to_device: u64,
    /// Page faults of kernels.
    pub gpu_faults: u64,
    /// Groups in which the driver served them: one record each.
    pub gpu_fault_groups: u64,
    /// Page faults of host code.
    pub cpu_faults: u64,
    /// Records that CUPTI had no room for; when not zero, the other numbers are too low.
    pub dropped_records: u64,
}

/// Why migrations cannot be counted here; the program runs on without.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// No libcupti was found, or it lacks a function.
    #[error("no usable CUPTI: {tried} (CUDA_UM_CUPTI names one)")]
    Missing {
        /// Each name tried and what became of it.
        tried: String,
    },
    /// CUPTI is there and said no.
    #[error("{call} was refused: {message} (CUPTI result {code})")]
    Refused {
        /// The CUPTI function.
        call: &'static str,
        /// Its result code.
        code: u32,
        /// CUPTI's own words for the code.
        message: String,
    },
    /// CUPTI has one set of callbacks a process, and a counter is using it.
    #[error("a MigrationCounter is running in this process already; drop it first")]
    AlreadyRunning,
}

static RUNNING: AtomicBool = AtomicBool::new(false);

/// Counts migrations and page faults of this process through CUPTI's unified-memory counters.
///
/// One at a time a process. Counting stops when it is dropped. Start one before the first managed buffer: CUPTI overlooks memory that
/// was allocated before its first start (seen with CUDA 13.0 on an H200); the first managed memory after it takes some 20 ms longer.
///
/// # Examples
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let runtime = cuda_um::Runtime::open()?;
/// let counter = cuda_um::profile::MigrationCounter::start(&runtime)?;
/// // … use managed memory …
/// println!("{:?}", counter.read()?);
/// # Ok(())
/// # }
/// ```
#[doc(alias = "cuptiActivityConfigureUnifiedMemoryCounter")]
pub struct MigrationCounter {
    cupti: Cupti,
}

impl MigrationCounter {
    /// Opens libcupti (`CUDA_UM_CUPTI`, a trusted path; else the name that goes with the runtime's version) and starts counting.
    ///
    /// # Errors
    /// [`ProfileError::Missing`] where there is no CUPTI, [`ProfileError::Refused`] where it does not count (the rights for
    /// profiling are missing, or another profiler has it), [`ProfileError::AlreadyRunning`].
    pub fn start(runtime: &crate::Runtime) -> Result<Self, ProfileError> {
        if RUNNING.swap(true, Ordering::AcqRel) {
            return Err(ProfileError::AlreadyRunning);
        }
        let devices = runtime.device_count().unwrap_or(1);
        let started = Cupti::open(runtime.version().major).and_then(|cupti| {
            cupti.start(devices as u32)?;
            Ok(Self { cupti })
        });
        if started.is_err() {
            RUNNING.store(false, Ordering::Release);
        }
        started
    }

    /// What was counted since the start. Synchronize the streams of interest first: work that still runs is counted later.
    ///
    /// # Errors
    /// [`ProfileError::Refused`] if CUPTI cannot deliver its records.
    pub fn read(&self) -> Result<MigrationCounts, ProfileError> {
        self.cupti.flush()?;
        Ok(MigrationCounts {
            bytes_to_device: cupti::sum(Kind::HostToDevice),
            bytes_to_host: cupti::sum(Kind::DeviceToHost),
            bytes_device_to_device: cupti::sum(Kind::DeviceToDevice),
            gpu_faults: cupti::sum(Kind::GpuFault),
            gpu_fault_groups: cupti::records(Kind::GpuFault),
            cpu_faults: cupti::records(Kind::CpuFault),
            dropped_records: cupti::dropped(),
        })
    }
}

impl std::fmt::Debug for MigrationCounter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MigrationCounter").finish_non_exhaustive()
    }
}

impl Drop for MigrationCounter {
    fn drop(&mut self) {
        self.cupti.stop();
        RUNNING.store(false, Ordering::Release);
    }
}
