//! The events of the blocks of a buffer.

use crate::report::{Context, Directions};
use crate::units::parts;
use crate::{BLOCK_BYTES, Place, RecordKind};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The events of adjacent blocks with equal events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BlockUse {
    /// Offset of the first block in the buffer.
    pub offset: u64,
    /// Number of blocks. They have equal events, and the other fields are values for each single block.
    pub blocks: u64,
    /// Bytes that moved to devices.
    pub to_device_bytes: u64,
    /// Bytes that moved to the host.
    pub to_host_bytes: u64,
    /// Fault records of either side.
    pub faults: u64,
    /// Number of changes of direction.
    pub alternations: u64,
}

pub(super) fn of(context: &Context, buffer: usize) -> Vec<BlockUse> {
    let about = &context.trace.buffers[buffer];
    let mut blocks: BTreeMap<u64, (BlockUse, Directions)> = BTreeMap::new();
    for part in &context.parts[buffer] {
        let begin = part.piece.address.saturating_sub(about.address);
        let end = begin + part.piece.bytes.max(1);
        for (block, bytes) in parts(begin..end, BLOCK_BYTES) {
            let (of, directions) = blocks.entry(block).or_default();
            match context.record(part).kind {
                RecordKind::Migration { to, .. } => {
                    let there = to != Place::Host;
                    let bytes = bytes.min(part.piece.bytes);
                    match there {
                        true => of.to_device_bytes += bytes,
                        false => of.to_host_bytes += bytes,
                    }
                    directions.go(there);
                    of.alternations = directions.changes;
                }
                RecordKind::CpuFault { .. } | RecordKind::GpuFault { .. } => of.faults += 1,
                _ => {}
            }
        }
    }
    let mut runs: Vec<BlockUse> = Vec::new();
    for (block, (of, _)) in blocks {
        let (offset, blocks) = (block * BLOCK_BYTES, 1);
        let of = BlockUse {
            offset,
            blocks,
            ..of
        };
        match runs.last_mut().filter(|last| last.continues(&of)) {
            Some(last) => last.blocks += 1,
            None => runs.push(of),
        }
    }
    runs
}

impl BlockUse {
    /// Whether a block follows these ones, with the same events.
    fn continues(&self, next: &Self) -> bool {
        let (offset, blocks) = (next.offset, self.blocks);
        let as_next = Self {
            offset,
            blocks: 1,
            ..*self
        };
        self.offset + blocks * BLOCK_BYTES == offset && as_next == *next
    }
}
