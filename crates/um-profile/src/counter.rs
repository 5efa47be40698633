//! Sums of migrations and page faults, without the records.

use crate::counts::MigrationCounts;
use crate::cupti::{Collection, Keep};
use crate::flush::{Marker, flush};
use crate::{ProfileError, Running, cupti_of};
use cuda_um::Runtime;

/// Counts migrations and page faults of this process through CUPTI's unified-memory counters; the simulator has them as well.
///
/// It stores only sums; a [`Profiler`](super::Profiler) stores each record. A process has at most one of the two at a time. The drop ends
/// the counting. Start it before the first managed buffer: CUPTI omits memory that was allocated before its first start (seen with CUDA
/// 13.0 on an H200). The first managed allocation after the start takes about 20 ms longer.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let runtime = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env()?.table())?;
/// let counter = um_profile::MigrationCounter::start(&runtime)?;
/// // … use managed memory …
/// println!("{:?}", counter.read()?);
/// # Ok(())
/// # }
/// ```
#[doc(alias = "cuptiActivityConfigureUnifiedMemoryCounter")]
pub struct MigrationCounter {
    collection: Collection,
    marker: Option<Marker>,
    // Declared after the collection, which must end before the next one starts.
    _running: Running,
}

impl MigrationCounter {
    /// Opens CUPTI and starts counting.
    ///
    /// # Errors
    /// The errors of [`Profiler::start`](super::Profiler::start).
    pub fn start(runtime: &Runtime) -> Result<Self, ProfileError> {
        let devices = runtime.device_count().map_err(Box::new)? as u32;
        let running = Running::take()?;
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

    /// Returns the sums since the start. Synchronize the relevant streams first: pending work is not in the sums.
    ///
    /// # Errors
    /// [`ProfileError::Refused`] if CUPTI cannot deliver its records; [`ProfileError::NoDevice`] in a child made by `fork`.
    pub fn read(&self) -> Result<MigrationCounts, ProfileError> {
        flush(&self.collection, self.marker.as_ref())?;
        Ok(self.collection.counts())
    }
}

impl std::fmt::Debug for MigrationCounter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MigrationCounter").finish_non_exhaustive()
    }
}
