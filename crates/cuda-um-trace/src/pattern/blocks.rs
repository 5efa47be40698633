//! The events of the blocks of a buffer.

use crate::report::{Context, Directions};
use crate::runs::{Event, Overlaid, parts};
use crate::{BLOCK_BYTES, Place, RecordKind};
use serde::{Deserialize, Serialize};

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

/// The events of a block, and its directions so far.
#[derive(Clone)]
struct Happened(BlockUse, Option<Directions>);

impl Event for Happened {
    fn then(&mut self, later: &Self) {
        self.0.to_device_bytes += later.0.to_device_bytes;
        self.0.to_host_bytes += later.0.to_host_bytes;
        self.0.faults += later.0.faults;
        match (&mut self.1, &later.1) {
            (Some(before), Some(later)) => before.then(later),
            (before, later) => *before = before.or(*later),
        }
    }
}

pub(super) fn of(context: &Context, buffer: usize) -> Vec<BlockUse> {
    let about = &context.trace.buffers[buffer];
    let pieces = || {
        context.parts[buffer].iter().flat_map(|part| {
            let begin = part.piece.address.saturating_sub(about.address);
            let end = begin + part.piece.bytes.max(1);
            parts(begin..end, BLOCK_BYTES).map(move |(range, bytes)| (part, range, bytes))
        })
    };
    let borders = pieces().flat_map(|(_, range, _)| [range.start, range.end]);
    let mut blocks = Overlaid::new(borders.collect());
    for (part, range, bytes) in pieces() {
        let mut happened = Happened(BlockUse::default(), None);
        match context.record(part).kind {
            RecordKind::Migration { to, .. } => {
                let there = to != Place::Host;
                let bytes = bytes.min(part.piece.bytes);
                match there {
                    true => happened.0.to_device_bytes = bytes,
                    false => happened.0.to_host_bytes = bytes,
                }
                happened.1 = Some(Directions::one(there));
            }
            RecordKind::CpuFault { .. } | RecordKind::GpuFault { .. } => happened.0.faults = 1,
            _ => {}
        }
        blocks.add(range, &happened);
    }
    let blocks = blocks
        .into_runs()
        .map(|(range, Happened(one, directions))| BlockUse {
            offset: range.start * BLOCK_BYTES,
            blocks: range.end - range.start,
            alternations: directions.map_or(0, |directions| directions.changes),
            ..one
        });
    blocks.collect()
}
