//! Counts of launches, which their kernels add up on the device.

use crate::error::Result;
use crate::workspace::lock;
use cuda_um::{Device, DeviceBuffer, fork};
use std::sync::Mutex;

/// Fallback queries, candidates and exact scores.
pub(super) type Counts = [u64; 3];

/// The counts of all launches. No lock is held while a launch or a copy uses one: launches at the same time have different memory.
#[derive(Debug)]
pub(super) struct Sums {
    device: Device,
    slots: Mutex<Vec<Slot>>,
}

/// The counts of launches one after the other.
#[derive(Debug, Default)]
struct Slot {
    known: Known,
    /// None while it is held.
    memory: Option<DeviceBuffer<u64>>,
}

/// What the host knows of a slot.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Known {
    /// The counts when they were last read.
    pub counts: Counts,
    /// Fallback queries that were then filtered again.
    pub again: u64,
}

/// The counts of a slot, while a launch or a copy uses them.
pub(super) struct HeldSums<'a> {
    home: &'a Sums,
    slot: usize,
    pub known: Known,
    /// None only during `drop`.
    memory: Option<DeviceBuffer<u64>>,
}

impl Sums {
    pub fn new(device: &Device) -> Self {
        Self {
            device: device.clone(),
            slots: Mutex::default(),
        }
    }

    /// Counts that no other launch uses now.
    pub fn hold(&self) -> Result<HeldSums<'_>> {
        fork::check("a launch")?;
        let count = lock(&self.slots).len();
        if let Some(held) = (0..count).find_map(|slot| self.take(slot).ok()) {
            return Ok(held);
        }
        let memory = DeviceBuffer::zeroed(&self.device, 3)?;
        let mut slots = lock(&self.slots);
        slots.push(Slot::default());
        Ok(HeldSums {
            home: self,
            slot: slots.len() - 1,
            known: Known::default(),
            memory: Some(memory),
        })
    }

    /// The counts of a slot; only what is known of them if they are held.
    fn take(&self, slot: usize) -> Result<HeldSums<'_>, Known> {
        let mut slots = lock(&self.slots);
        let Slot { known, memory } = &mut slots[slot];
        let memory = memory.take().ok_or(*known)?;
        Ok(HeldSums {
            home: self,
            slot,
            known: *known,
            memory: Some(memory),
        })
    }

    /// The sum over all launches, without those that are being enqueued now. Waits for the launches.
    pub fn total(&self) -> Result<Known> {
        fork::check("a launch")?;
        let count = lock(&self.slots).len();
        let mut total = Known::default();
        for slot in 0..count {
            let known = match self.take(slot) {
                Ok(mut held) => {
                    held.read()?;
                    held.known
                }
                Err(known) => known,
            };
            total.again += known.again;
            for (total, count) in total.counts.iter_mut().zip(known.counts) {
                *total += count;
            }
        }
        Ok(total)
    }
}

impl HeldSums<'_> {
    /// For a kernel that adds to them.
    pub fn memory(&mut self) -> &mut DeviceBuffer<u64> {
        self.memory.as_mut().expect("present until the drop")
    }

    /// Reads the counts. Waits for the launches. Returns by how much the fallback queries grew.
    pub fn read(&mut self) -> Result<u64> {
        let before = self.known.counts[0];
        let mut counts = Counts::default();
        self.memory().copy_to_host(&mut counts)?;
        self.known.counts = counts;
        Ok(counts[0] - before)
    }
}

impl Drop for HeldSums<'_> {
    fn drop(&mut self) {
        let slot = &mut lock(&self.home.slots)[self.slot];
        (slot.known, slot.memory) = (self.known, self.memory.take());
    }
}
