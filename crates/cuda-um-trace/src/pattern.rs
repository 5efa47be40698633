//! The use of each buffer, from its records and operations, and the `AccessPattern` of `cuda-um` that fits it.
//!
//! This module sees only addresses that faulted: a prefetched buffer has no known order.

mod blocks;
mod order;
mod usage;

pub use blocks::BlockUse;
pub use order::Order;
pub use usage::{SuggestedPattern, Usage};

use crate::report::Context;
use crate::{Attribution, Trace};
use serde::{Deserialize, Serialize};

/// The use of a buffer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BufferPattern {
    /// The buffer's number in the trace.
    pub buffer: u64,
    /// Its name.
    pub name: String,
    /// The readers and writers of the buffer.
    pub usage: Usage,
    /// The order in which its addresses were accessed.
    pub order: Order,
    /// Its 2 MiB blocks, from its first byte. Blocks without any event are left out.
    pub blocks: Vec<BlockUse>,
    /// The pattern to state when the buffer is allocated.
    pub suggests: Option<SuggestedPattern>,
}

impl BufferPattern {
    pub(crate) fn suggestion_text(&self) -> String {
        match self.suggests {
            Some(pattern) => pattern.to_string(),
            None => "–".to_owned(),
        }
    }
}

/// The pattern of every buffer of a trace, except slabs of pools.
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
            let blocks = blocks::of(&context, index);
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
