//! The targets that the filter kept.

use crate::exact::bound::{Bound, RowBound, minus_down, plus_up};
use cuda_um_sim::{LaunchContext, ReferenceError};

/// The k-th largest, if there are at least k.
pub(super) fn kth(mut numbers: Vec<f32>, k: usize) -> Option<f32> {
    (numbers.len() >= k).then(|| {
        *numbers
            .select_nth_unstable_by(k - 1, |a, b| b.total_cmp(a))
            .1
    })
}

/// The candidates of all queries.
pub(super) struct Candidates<'a> {
    counts: &'a [u32],
    kept: &'a [[u32; 2]],
    capacity: usize,
    query_bounds: &'a [RowBound],
    target_bounds: &'a [RowBound],
    bound: Bound,
}

impl<'a> Candidates<'a> {
    /// `indices` are the arguments with the bounds of the queries, the bounds of the targets, the counts and the candidates.
    pub fn of(
        launch: &LaunchContext<'a>,
        indices: [usize; 4],
        capacity: usize,
        bound: Bound,
    ) -> Result<Self, ReferenceError> {
        let query_count = launch.grid()[0] as usize;
        let mut candidates = Self {
            query_bounds: launch.slice(indices[0], query_count)?,
            target_bounds: &[],
            counts: launch.slice(indices[2], query_count)?,
            kept: launch.slice(indices[3], query_count * capacity)?,
            capacity,
            bound,
        };
        // The kernels do not get the number of targets.
        let listed = (0..query_count).filter_map(|query| candidates.list(query));
        let ends = listed.flatten().map(|[target, _]| *target as usize + 1);
        candidates.target_bounds = launch.slice(indices[1], ends.max().unwrap_or(0))?;
        Ok(candidates)
    }

    /// The number of a query's candidates that were kept.
    pub fn count(&self, query: usize) -> usize {
        self.capacity.min(self.counts[query] as usize)
    }

    /// The candidates of a query and their scores, if all of them were kept.
    fn list(&self, query: usize) -> Option<&'a [[u32; 2]]> {
        let count = self.counts[query] as usize;
        (count <= self.capacity).then(|| &self.kept[query * self.capacity..][..count])
    }

    /// A query's candidates for which the bound holds: the target, its score, and the largest error of the score.
    fn bounded(&self, query: usize) -> Option<impl Iterator<Item = (u32, f32, f32)>> {
        let list = self.list(query)?.iter();
        Some(list.filter_map(move |[target, bits]| {
            let bound = self.target_bounds[*target as usize];
            (bound[1] < f32::INFINITY).then(|| {
                let error = self.bound.error(self.query_bounds[query], bound);
                (*target, f32::from_bits(*bits), error)
            })
        }))
    }

    /// The k-th best of the lower bounds of the candidates' exact scores.
    pub fn low(&self, query: usize, k: usize) -> Option<f32> {
        let lower = self
            .bounded(query)?
            .map(|(_, score, error)| minus_down(score, error));
        kth(lower.collect(), k)
    }

    /// The targets that may belong to a query's list.
    pub fn survivors(&self, query: usize, k: usize) -> Option<Vec<u32>> {
        let least = self.low(query, k).unwrap_or(f32::NEG_INFINITY);
        let reach = |(target, score, error)| (plus_up(score, error) >= least).then_some(target);
        Some(self.bounded(query)?.filter_map(reach).collect())
    }
}
