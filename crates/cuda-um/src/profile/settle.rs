//! Waits until CUPTI has delivered everything.
//!
//! The driver queues records of managed memory, and CUPTI takes them from the queue when it likes: a flush leaves out the last milliseconds
//! (seen with CUDA 13.0 on an H200). So a page of our own migrates to the host, and when its record is there, so is everything before.

use super::ProfileError;
use super::cupti::Collection;
use crate::device::Device;
use crate::error::Result;
use crate::memory::unified::{UnifiedBuffer, UnifiedOptions};
use crate::placement::Placement;
use crate::runtime::Runtime;
use std::time::{Duration, Instant};

/// A block that the driver manages as one, so that nothing else of the program migrates along.
const BLOCK_BYTES: usize = 2 << 20;
const STEP: Duration = Duration::from_micros(200);
/// Longer than any queue was seen to take.
const PATIENCE: Duration = Duration::from_secs(2);
/// Where no page can migrate: so long without a record is the end.
const QUIET: Duration = Duration::from_millis(20);

/// Takes what CUPTI has of all that happened before.
///
/// # Errors
/// CUPTI refuses to deliver.
pub(super) fn settle(
    collection: &Collection,
    runtime: &Runtime,
) -> std::result::Result<(), ProfileError> {
    if !collection.is_late() {
        return collection.flush();
    }
    let devices = runtime.open_devices();
    let migrates = |device: &&Device| device.capabilities().concurrent_managed_access;
    let marker = match devices.iter().find(migrates) {
        None => return until_quiet(collection),
        Some(device) => set_mark(collection, device),
    };
    let arrived = match marker {
        Ok(marker) => {
            let arrived = until_marked(collection);
            collection.mark(0..0);
            drop(marker);
            arrived?
        }
        Err(error) => {
            tracing::debug!(target: "cuda_um", %error, "no page to mark the end of CUPTI's records");
            false
        }
    };
    if arrived {
        return Ok(());
    }
    until_quiet(collection)
}

/// Makes a page migrate to the host.
fn set_mark(collection: &Collection, device: &Device) -> Result<UnifiedBuffer<u8>> {
    let stream = device.default_stream()?;
    let options = UnifiedOptions::default().placement(Placement::Managed);
    let page = UnifiedBuffer::<u8>::zeroed_with(device, BLOCK_BYTES, options)?;
    stream.synchronize()?;
    let start = page.as_ptr() as u64;
    collection.mark(start..start + BLOCK_BYTES as u64);
    // A touch on the host: the page is on the device.
    std::hint::black_box(page.host()?[0]);
    Ok(page)
}

fn until_marked(collection: &Collection) -> std::result::Result<bool, ProfileError> {
    let start = Instant::now();
    loop {
        collection.flush()?;
        if collection.marks() > 0 {
            return Ok(true);
        }
        if start.elapsed() > PATIENCE {
            tracing::warn!(target: "cuda_um", "CUPTI has not delivered a record for {PATIENCE:?}: a profile may be short");
            return Ok(false);
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
