//! What an access costs on a device.

use super::At;
use super::memory::{Located, lanes};
use crate::syntax::Space;

impl At<'_, '_> {
    /// Sectors of 32 bytes of device memory, and turns that shared memory takes.
    pub fn profile(&mut self, located: &Located, size: u64) {
        let line = &mut self.worker.counts.lines[self.pc];
        let units = |lane: usize, bytes: u64| {
            located.addresses[lane] / bytes..=(located.addresses[lane] + size - 1) / bytes
        };
        let distinct = |mask: u32, bytes: u64| {
            let mut all: Vec<u64> = lanes(mask).flat_map(|lane| units(lane, bytes)).collect();
            all.sort_unstable();
            all.dedup();
            all
        };
        match located.space {
            Space::Global | Space::Const => {
                line.sectors += distinct(located.mask, 32).len() as u64;
                line.ideal_sectors += (u64::from(located.mask.count_ones()) * size).div_ceil(32);
            }
            Space::Shared => {
                // 128 bytes at a time: all lanes, halves or quarters of the warp. Lanes that use the same word share it.
                let together = (128 / size).clamp(1, 32) as usize;
                for group in (0..32).step_by(together) {
                    let group = (u64::from(u32::MAX) >> (32 - together) << group) as u32;
                    let mut banks = [0u64; 32];
                    for word in distinct(located.mask & group, 4) {
                        banks[word as usize % 32] += 1;
                    }
                    line.bank_conflicts += banks.into_iter().max().unwrap_or(0).saturating_sub(1);
                }
            }
            _ => {}
        }
    }
}
