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
    /// The bounds of the queries and of the targets are the arguments 4 and 5.
    pub fn of<'l: 'a>(
        launch: &LaunchContext<'l>,
        counts: &'a [u32],
        kept: &'a [[u32; 2]],
        bound: Bound,
    ) -> Result<Self, ReferenceError> {
        let query_count = counts.len();
        let mut candidates = Self {
            query_bounds: launch.slice(4, query_count)?,
            target_bounds: &[],
            counts,
            kept,
            capacity: kept.len() / query_count,
            bound,
        };
        // The kernels do not get the number of targets.
        let listed = (0..query_count).filter_map(|query| candidates.list(query));
        let ends = listed.flatten().map(|[target, _]| *target as usize + 1);
        candidates.target_bounds = launch.slice(5, ends.max().unwrap_or(0))?;
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

    /// The k candidates with the best lower bounds, if there are at least k.
    pub fn best(&self, query: usize, k: usize) -> Vec<u32> {
        let Some(bounded) = self.bounded(query) else {
            return Vec::new();
        };
        let mut best: Vec<(f32, u32)> = bounded
            .map(|(target, score, error)| (minus_down(score, error), target))
            .collect();
        best.sort_by(|a, b| b.0.total_cmp(&a.0));
        best.truncate(k);
        best.into_iter().map(|(_, target)| target).collect()
    }

    /// The candidates of which the exact score may be at least `least`, if all of the query's candidates were kept.
    pub fn reaching(&self, query: usize, least: f32) -> Vec<[u32; 2]> {
        let Some(bounded) = self.bounded(query) else {
            return Vec::new();
        };
        let reach = |(target, score, error): (u32, f32, f32)| {
            (plus_up(score, error) >= least).then_some([target, score.to_bits()])
        };
        bounded.filter_map(reach).collect()
    }

    /// True if all of a query's candidates were kept.
    pub fn fit(&self, query: usize) -> bool {
        self.list(query).is_some()
    }

    /// The end of the targets that are candidates.
    pub fn end(&self) -> usize {
        self.target_bounds.len()
    }
}
