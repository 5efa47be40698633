//! Waits until CUPTI has delivered all records.
//!
//! The driver queues records of managed memory, and CUPTI reads the queue at times of its choice: a flush omits the last milliseconds (seen
//! with CUDA 13.0 on an H200). So a page of the library migrates to the host; when its record arrives, all earlier records have arrived.

use crate::ProfileError;
use crate::cupti::Collection;
use cuda_um::graph::outside;
use cuda_um::process_end::Calls;
use cuda_um::{Device, Placement, Result, Runtime, UnifiedBuffer, UnifiedOptions};
use std::time::{Duration, Instant};

/// The size of a block that the driver manages as one, so that no other memory of the program migrates with the page.
const BLOCK_BYTES: usize = 2 << 20;
const STEP: Duration = Duration::from_micros(200);
/// Longer than any delay of the queue that was seen.
const PATIENCE: Duration = Duration::from_secs(2);
/// If no page can migrate: this time without a new record counts as the end.
const QUIET: Duration = Duration::from_millis(20);

/// A page of the library, allocated at the start of the collection: a later one could reuse addresses whose records are still queued.
pub(crate) struct Marker {
    page: UnifiedBuffer<u8>,
}

impl Marker {
    /// Allocates the page; `None` if CUPTI delivers at once, or no page can migrate.
    pub(crate) fn new(collection: &Collection, runtime: &Runtime) -> Option<Self> {
        if !collection.is_late() {
            return None;
        }
        let open = runtime.open_devices();
        let devices = match open.is_empty() {
            true => runtime.device(0).into_iter().collect(),
            false => open,
        };
        let migrates = |device: &&Device| device.capabilities().concurrent_managed_access;
        let device = devices.iter().find(migrates)?;
        let options = UnifiedOptions::default().placement(Placement::Managed);
        // Also while this thread captures: the page belongs to no graph.
        let made = || UnifiedBuffer::<u8>::zeroed_with(device, BLOCK_BYTES, options);
        match outside(made) {
            Ok(page) => {
                let start = page.as_ptr() as u64;
                collection.mark(start..start + BLOCK_BYTES as u64);
                Some(Self { page })
            }
            Err(error) => {
                tracing::debug!(target: "cuda_um", %error, "the page that marks the end of CUPTI's records could not be allocated");
                None
            }
        }
    }

    /// Makes the page migrate to the host.
    fn migrate(&self, collection: &Collection) -> Result<()> {
        let device = self.page.device();
        let _calls = Calls::of("a marker of the profiler")?;
        outside(|| {
            let stream = device.default_stream()?;
            self.page.prefetch_on(device, &stream)?.require()?;
            stream.synchronize()?;
            collection.forget_marks();
            std::hint::black_box(self.page.host()?[0]);
            Ok(())
        })
    }
}

/// Reads all of CUPTI's records of earlier work.
///
/// # Errors
/// The errors of CUPTI's flush.
pub(crate) fn flush(
    collection: &Collection,
    marker: Option<&Marker>,
) -> std::result::Result<(), ProfileError> {
    if !collection.is_late() {
        return collection.flush();
    }
    let migrated = marker.map(|marker| marker.migrate(collection));
    match migrated {
        Some(Ok(())) => until_marked(collection),
        other => {
            if let Some(Err(error)) = other {
                tracing::debug!(target: "cuda_um", %error, "the page that marks the end of CUPTI's records does not migrate");
            }
            until_quiet(collection)
        }
    }
}

fn until_marked(collection: &Collection) -> std::result::Result<(), ProfileError> {
    let start = Instant::now();
    loop {
        collection.flush()?;
        if collection.marks() > 0 {
            return Ok(());
        }
        if start.elapsed() > PATIENCE {
            tracing::warn!(target: "cuda_um",
                "CUPTI has not delivered a record for {PATIENCE:?}: profile may be incomplete"
            );
            return Ok(());
        }
        std::thread::sleep(STEP);
    }
}

fn until_quiet(collection: &Collection) -> std::result::Result<(), ProfileError> {
    let (start, mut last) = (Instant::now(), Instant::now());
    let mut counts = collection.counts();
    while last.elapsed() < QUIET && start.elapsed() < PATIENCE {
        collection.flush()?;
        let now = collection.counts();
        if now != counts {
            (counts, last) = (now, Instant::now());
        }
        std::thread::sleep(STEP);
    }
    Ok(())
}
