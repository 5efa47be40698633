//! Device memory between the kernels of a launch.

use super::bound::RowBound;
use super::plan::Plan;
use super::prepared::padded_queries;
use super::tiles::{Format, GROUPS, room};
use crate::cosine_top_k::TopKShape;
use crate::error::Result;
use crate::workspace::{Held, Workspace};
use cuda_um::Device;

/// The memory, which is kept between launches.
#[derive(Debug)]
pub(super) struct Room {
    query_norms: Workspace<f32>,
    query_tiles: Workspace<u16>,
    query_scales: Workspace<f32>,
    query_bounds: Workspace<RowBound>,
    query_specials: Workspace<u32>,
    best: Workspace<f32>,
    thresholds: Workspace<f32>,
    counts: Workspace<u32>,
    kept: Workspace<[u32; 2]>,
    given_up: Workspace<u32>,
    gathered: Workspace<f32>,
    gathered_norms: Workspace<f32>,
}

/// The memory of one launch, for a batch of queries.
pub(super) struct HeldRoom<'a> {
    pub norms: Held<'a, f32>,
    pub tiles: Held<'a, u16>,
    pub scales: Held<'a, f32>,
    pub bounds: Held<'a, RowBound>,
    pub specials: Held<'a, u32>,
    /// For each query, the lower bound of the best score of each group of sampled targets.
    pub best: Held<'a, f32>,
    pub thresholds: Held<'a, f32>,
    /// Candidates of each query, also those for which `kept` has no place.
    pub counts: Held<'a, u32>,
    /// Targets and their scores.
    pub kept: Held<'a, [u32; 2]>,
    /// The number of queries for the fallback, then their rows.
    pub given_up: Held<'a, u32>,
    pub gathered: Held<'a, f32>,
    pub gathered_norms: Held<'a, f32>,
}

impl Room {
    pub fn new(device: &Device) -> Self {
        Self {
            query_norms: Workspace::new(device),
            query_tiles: Workspace::new(device),
            query_scales: Workspace::new(device),
            query_bounds: Workspace::new(device),
            query_specials: Workspace::new(device),
            best: Workspace::new(device),
            thresholds: Workspace::new(device),
            counts: Workspace::new(device),
            kept: Workspace::new(device),
            given_up: Workspace::new(device),
            gathered: Workspace::new(device),
            gathered_norms: Workspace::new(device),
        }
    }

    /// Bytes of [`hold`](Self::hold), without those of a few numbers.
    pub fn bytes(shape: TopKShape, plan: Plan, format: Format) -> usize {
        let most = plan.batch.min(shape.queries);
        let padded = padded_queries(most);
        let numbers = most.saturating_mul(plan.sampled * GROUPS + shape.dim + 7);
        let kept = most.saturating_mul(plan.capacity);
        room(most, shape.dim, format)
            .saturating_mul(2)
            .saturating_add(numbers.saturating_mul(4))
            .saturating_add((padded + kept).saturating_mul(8))
    }

    /// Memory for each batch of a search.
    pub fn hold(&self, shape: TopKShape, plan: Plan, format: Format) -> Result<HeldRoom<'_>> {
        let most = plan.batch.min(shape.queries);
        Ok(HeldRoom {
            norms: self.query_norms.hold(most)?,
            tiles: self.query_tiles.hold(room(most, shape.dim, format))?,
            scales: self.query_scales.hold(padded_queries(most))?,
            bounds: self.query_bounds.hold(padded_queries(most))?,
            specials: self.query_specials.hold(1)?,
            best: self.best.hold(most * plan.sampled * GROUPS)?,
            thresholds: self.thresholds.hold(most)?,
            counts: self.counts.hold(most)?,
            kept: self.kept.hold(most * plan.capacity)?,
            given_up: self.given_up.hold(1 + most)?,
            gathered: self.gathered.hold(most * shape.dim)?,
            gathered_norms: self.gathered_norms.hold(most)?,
        })
    }
}
