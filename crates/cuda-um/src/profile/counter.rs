//! Sums of what migrated, without the records.

use crate::profile::counts::MigrationCounts;
use crate::profile::cupti::{Collection, Keep};
use crate::profile::settle::{Marker, settle};
use crate::profile::{ProfileError, Running, cupti_of};

/// Counts migrations and page faults of this process through CUPTI's unified-memory counters; the simulator has them as well.
///
/// It keeps sums alone: see [`Profiler`](super::Profiler) for each record. One of the two at a time a process. Counting stops when it
/// is dropped. Start one before the first managed buffer: CUPTI overlooks memory that was allocated before its first start (seen with
/// CUDA 13.0 on an H200); the first managed memory after it takes some 20 ms longer.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let runtime = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env()?.table())?;
/// let counter = cuda_um::profile::MigrationCounter::start(&runtime)?;
/// // … use managed memory …
/// println!("{:?}", counter.read()?);
/// # Ok(())
/// # }
/// ```
#[doc(alias = "cuptiActivityConfigureUnifiedMemoryCounter")]
pub struct MigrationCounter {
    collection: Collection,
    marker: Option<Marker>,
    // After the collection, which must have ended when the next one starts.
    _running: Running,
}

impl MigrationCounter {
    /// Opens CUPTI and starts counting.
    ///
    /// # Errors
    /// As for [`Profiler::start`](super::Profiler::start).
    pub fn start(runtime: &crate::Runtime) -> Result<Self, ProfileError> {
        let origin = runtime.api().origin;
        origin.check("MigrationCounter::start").map_err(Box::new)?;
        let running = Running::take()?;
        let devices = runtime.device_count().map_err(Box::new)? as u32;
        let keep = Keep {
            buffers: usize::MAX,
            ..Keep::default()
        };
        let collection = Collection::start(cupti_of(runtime)?, devices, keep)?;
        Ok(Self {
            marker: Marker::new(&collection, runtime),
            collection,
            _running: running,
        })
    }

    /// What was counted since the start. Synchronize the streams of interest first: work that still runs is counted later.
    ///
    /// # Errors
    /// [`ProfileError::Refused`] if CUPTI cannot deliver its records; [`ProfileError::NoDevice`] in a child made by `fork`.
    pub fn read(&self) -> Result<MigrationCounts, ProfileError> {
        let origin = self.collection.origin();
        origin.check("MigrationCounter::read").map_err(Box::new)?;
        settle(&self.collection, self.marker.as_ref())?;
        Ok(self.collection.counts())
    }
}

impl std::fmt::Debug for MigrationCounter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MigrationCounter").finish_non_exhaustive()
    }
}
