//! The use of each buffer, from its records and operations, and the `AccessPattern` of `cuda-um` that fits it.

mod usage;

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
            let (usage, suggests) = usage::of(&context, index);
            BufferPattern {
                buffer: buffer.id,
                name: buffer.name.clone(),
                usage,
                suggests,
            }
        })
        .collect()
}
