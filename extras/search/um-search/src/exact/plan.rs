//! The parameters of a launch with a filter.

use super::filter::MOST_SURVIVORS;
use super::tiles::{BLOCK, Format, TILE};
use crate::cosine_top_k::TopKShape;

/// One of every `PERIOD` blocks of targets is filtered first, for a better threshold.
const PERIOD: usize = 8;

/// Candidates kept for a query, if its list is short.
const KEPT: usize = 4096;

/// The parameters of a launch with a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// Queries of one pass.
    pub batch: usize,
    /// Candidates kept for a query.
    pub capacity: usize,
    /// Limit on candidates that remain to be scored. They are sorted, so it is a power of two.
    pub survivors: usize,
    /// Blocks of targets in the sample; two of them are `period` blocks apart.
    pub sampled: usize,
    pub period: usize,
    /// One of every `first_of` blocks of targets is filtered first; 0: all blocks at once.
    pub first_of: usize,
}

impl Plan {
    pub fn new(shape: TopKShape, format: Format) -> Self {
        let TopKShape {
            queries,
            targets,
            k,
            ..
        } = shape;
        let blocks = targets.div_ceil(BLOCK);
        // At least four groups of targets for each place of a list. With many targets the share grows with the list, so that
        // the candidates of the first filter fit.
        let share = if k <= 64 { 64 } else { 32 };
        let wanted = k.div_ceil(4).max(blocks.div_ceil(share)).clamp(1, blocks);
        let period = blocks / wanted;
        // The memory limits the speed of few queries: more candidates cost less than a second pass.
        let one_tile = queries <= TILE;
        Self {
            batch: if k <= 256 { 1024 } else { 256 },
            capacity: match format {
                _ if one_tile => (64 * k).max(4 * KEPT),
                Format::Bf16 | Format::F16 => (32 * k).max(KEPT),
                Format::Int8 => (64 * k).max(2 * KEPT),
            },
            survivors: (4 * k).next_power_of_two().clamp(1024, MOST_SURVIVORS),
            sampled: blocks.div_ceil(period),
            period,
            first_of: if blocks >= 8 * PERIOD && !one_tile {
                PERIOD
            } else {
                0
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_cover_the_targets_and_hold_enough_groups() {
        for targets in [1, 256, 257, 5000, 70_000, 1_000_000, 100_000_000] {
            for k in [1, 10, 100, 300, 1024] {
                let shape = TopKShape {
                    queries: 1000,
                    targets,
                    dim: 768,
                    k,
                };
                let plan = Plan::new(shape, Format::Int8);
                let blocks = targets.div_ceil(BLOCK);
                assert!(plan.period >= 1 && plan.sampled >= 1, "{shape:?} {plan:?}");
                assert!(
                    (plan.sampled - 1) * plan.period < blocks,
                    "{shape:?} {plan:?}"
                );
                assert!(
                    plan.sampled >= blocks.min(k.div_ceil(4)),
                    "{shape:?} {plan:?}"
                );
                assert!(plan.capacity < 1 << 20 && plan.survivors < 1 << 16 && k <= plan.survivors);
                assert!(plan.survivors.is_power_of_two());
            }
        }
    }
}
