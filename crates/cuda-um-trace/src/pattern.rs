//! How each buffer is used, from its records and operations; and the `AccessPattern` of `cuda-um` that fits.
//!
//! What this module does not do: look at addresses that nobody faulted on. A prefetched buffer has no order.

mod order;
mod usage;

pub use order::Order;
pub use usage::Usage;

use crate::report::{Context, Directions};
use crate::runs::{Event, Overlaid, parts};
use crate::{Attribution, BLOCK_BYTES, Place, RecordKind, Trace};
use serde::{Deserialize, Serialize};
use std::fmt;

/// How a buffer is used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BufferPattern {
    /// The buffer's number in the trace.
    pub buffer: u64,
    /// Its name.
    pub name: String,
    /// Who reads and writes it.
    pub usage: Usage,
    /// In which order its addresses were touched.
    pub order: Order,
    /// Its 2 MiB blocks, from its first byte; those that nothing happened to are left out.
    pub blocks: Vec<BlockUse>,
    /// What to state when the buffer is made.
    pub suggests: Option<SuggestedPattern>,
}

/// What happened to each of some blocks that lie side by side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockUse {
    /// Where the first one begins in the buffer.
    pub offset: u64,
    /// How many there are: the same happened to all of them, and what follows is true of each.
    pub blocks: u64,
    /// Bytes that moved to devices.
    pub to_device_bytes: u64,
    /// Bytes that moved to the host.
    pub to_host_bytes: u64,
    /// Fault records of either side.
    pub faults: u64,
    /// How many times its direction changed.
    pub alternations: u64,
}

/// A pattern by its name in `cuda_um::AccessPattern`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SuggestedPattern {
    /// Written seldom, and read by the host and the device again and again.
    ReadMostly,
    /// Used by the device nearly always.
    DeviceResident,
    /// Written by a kernel, and then read by the host.
    ReadBack,
    /// Written by the host once, and read by a kernel once.
    StreamOnce,
}

impl fmt::Display for SuggestedPattern {
    /// As Rust code: `"AccessPattern::ReadBack"`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AccessPattern::{self:?}")
    }
}

impl BufferPattern {
    pub(crate) fn suggestion_text(&self) -> String {
        match self.suggests {
            Some(pattern) => pattern.to_string(),
            None => "–".to_owned(),
        }
    }
}

/// The pattern of every buffer of a trace, slabs of pools left out.
pub fn patterns(trace: &Trace) -> Vec<BufferPattern> {
    let attribution = Attribution::of(trace);
    let model = cuda_um_cost::CostModel::h200();
    let context = Context::new(trace, &attribution, &model);
    let slabs: std::collections::HashSet<u64> = trace
        .buffers
        .iter()
        .filter_map(|buffer| buffer.slab)
        .collect();
    let buffers = trace.buffers.iter().enumerate();
    buffers
        .filter(|(_, buffer)| !slabs.contains(&buffer.id))
        .map(|(index, buffer)| {
            let blocks = blocks(&context, index);
            let (usage, suggests) = usage::of(&context, index, &blocks);
            BufferPattern {
                buffer: buffer.id,
                name: buffer.name.clone(),
                usage,
                order: order::of(&context, index),
                blocks,
                suggests,
            }
        })
        .collect()
}

/// What happened to a block, and its directions so far.
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

fn blocks(context: &Context, buffer: usize) -> Vec<BlockUse> {
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
