//! How each buffer is used, from its records and operations; and the `AccessPattern` of `cuda-um` that fits.
//!
//! What this module does not do: look at addresses that nobody faulted on. A prefetched buffer has no order.

mod blocks;
mod order;
mod usage;

pub use blocks::BlockUse;
pub use order::Order;
pub use usage::{SuggestedPattern, Usage};

use crate::report::Context;
use crate::{Attribution, Trace};
use serde::{Deserialize, Serialize};

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
