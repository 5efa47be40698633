//! A query's list, and the targets that may belong to it.

use super::rows::{NarrowTargets, narrow_row, steps};
use crate::cosine_top_k::cpu::{NONE, ROWS, Scalar, multiply, multiply_one};
use crate::exact::SearchCounts;
use crate::exact::bound::{Bound, RowBound, minus_down, quotient_down};
use std::ops::Range;

/// With so many candidates the best are scored, which leaves out most of the others; if half as many remain, all are scored.
const MOST_PENDING: usize = 128;
/// A tile is scored without the filter for a query if more than one of so many targets are candidates.
const DENSE: usize = 8;
/// A query gives up the filter if more targets than this, and one of so many, were scored one by one. This takes several times as
/// long as in a product of many rows, and a tile without the filter counts as a share of its targets.
const MOST_SCORED: usize = 64;
const SHARE_SCORED: usize = 32;
const SHARE_OF_TILE: usize = 4;

/// The targets of a search.
pub(super) struct Targets<'a, T> {
    pub rows: &'a [T],
    pub dim: usize,
    pub norms: &'a [f32],
    pub narrow: &'a NarrowTargets,
    pub bound: Bound,
}

/// A target and its filter's score.
#[derive(Clone, Copy)]
struct Candidate {
    target: usize,
    score: f32,
}

/// A query, its list so far, and the candidates that are not scored yet.
pub(super) struct Query<'a> {
    row: &'a [f32],
    norm: f32,
    /// The row in 8 bits.
    pub words: Vec<i32>,
    scale: f32,
    bound: RowBound,
    /// What the sums of products are too large, because the targets' numbers are.
    excess: i32,
    scores: &'a mut [f32],
    indices: &'a mut [u32],
    pending: Vec<Candidate>,
    /// Targets in tiles that were scored without the filter.
    unfiltered: usize,
    pub counts: SearchCounts,
}

/// Memory for the rows that are scored, and their products.
#[derive(Default)]
pub(super) struct Room {
    wide: Vec<f32>,
    rows: Vec<f32>,
    products: Vec<f32>,
}

impl<'a> Query<'a> {
    pub fn new(
        row: &'a [f32],
        norm: f32,
        bound: Bound,
        (scores, indices): (&'a mut [f32], &'a mut [u32]),
    ) -> Self {
        scores.fill(f32::NEG_INFINITY);
        indices.fill(NONE);
        let mut words = vec![0; steps(row.len())];
        let (scale, bound) = narrow_row(row, norm, bound, &mut words);
        let elements: &[i8] = bytemuck::cast_slice(&words);
        Self {
            row,
            norm,
            scale,
            bound,
            excess: 128 * elements.iter().map(|one| i32::from(*one)).sum::<i32>(),
            words,
            scores,
            indices,
            pending: Vec::new(),
            unfiltered: 0,
            // If the bound does not hold for the query, no target can be left out.
            counts: SearchCounts {
                fallback_queries: u64::from(bound[1] == f32::INFINITY),
                ..SearchCounts::default()
            },
        }
    }

    pub fn is_filtered(&self) -> bool {
        self.counts.fallback_queries == 0
    }

    /// At least k targets have this exact score, or a higher one.
    fn worst(&self) -> f32 {
        self.scores[self.scores.len() - 1]
    }

    /// Finds the candidates of a tile from its sums, and scores them if there are enough; false: too many for it.
    pub fn take<T: Scalar>(
        &mut self,
        targets: &Targets<'_, T>,
        tile: Range<usize>,
        tile_bound: RowBound,
        sums: &[i32],
        room: &mut Room,
    ) -> bool {
        let scales = &targets.narrow.scales[tile.clone()];
        let score = |(sum, scale): (&i32, &f32)| (sum - self.excess) as f32 * scale;
        let error = targets.bound.error(self.bound, tile_bound);
        let (k, is_full) = (self.scores.len(), self.worst() > f32::NEG_INFINITY);
        let mut least = self.worst();
        if !is_full {
            if tile.len() < 2 * DENSE * k {
                return false;
            }
            // The k-th best of the tile, less its error.
            let mut all: Vec<f32> = sums.iter().zip(scales).map(score).collect();
            let (_, last, _) = all.select_nth_unstable_by(k - 1, |a, b| b.total_cmp(a));
            least = minus_down(*last * self.scale, error);
        }
        let limit = quotient_down(minus_down(least, error), self.scale);
        let before = self.pending.len();
        for (part, (sums, scales)) in sums.chunks(64).zip(scales.chunks(64)).enumerate() {
            let pairs = || sums.iter().zip(scales).map(score);
            if !pairs().fold(false, |any, score| any | (score >= limit)) {
                continue;
            }
            let found = (tile.start + part * 64..).zip(pairs());
            for (target, score) in found.filter(|(_, score)| *score >= limit) {
                let score = score * self.scale;
                let candidate = Candidate { target, score };
                if targets.reaches(self.bound, candidate, least) {
                    self.pending.push(candidate);
                }
            }
        }
        let found = self.pending.len() - before;
        if is_full && found > tile.len() / DENSE {
            self.pending.truncate(before);
            return false;
        }
        self.counts.candidates += found as u64;
        if self.pending.len() >= MOST_PENDING || !is_full {
            self.tighten(targets, room);
        }
        true
    }

    /// Scores the best candidates, which may leave out others.
    fn tighten<T: Scalar>(&mut self, targets: &Targets<'_, T>, room: &mut Room) {
        let mut best = std::mem::take(&mut self.pending);
        let count = self.scores.len().next_multiple_of(ROWS);
        if best.len() > count {
            best.select_nth_unstable_by(count - 1, |a, b| b.score.total_cmp(&a.score));
            self.pending = best.split_off(count);
        }
        self.score(targets, &best, room);
        let (bound, worst) = (self.bound, self.worst());
        self.pending
            .retain(|candidate| targets.reaches(bound, *candidate, worst));
        if self.pending.len() >= MOST_PENDING / 2 {
            self.score_pending(targets, room);
        }
    }

    /// Scores the last candidates.
    pub fn finish<T: Scalar>(&mut self, targets: &Targets<'_, T>, room: &mut Room) {
        self.tighten(targets, room);
        self.score_pending(targets, room);
    }

    fn score_pending<T: Scalar>(&mut self, targets: &Targets<'_, T>, room: &mut Room) {
        let pending = std::mem::take(&mut self.pending);
        self.score(targets, &pending, room);
    }

    fn score<T: Scalar>(&mut self, targets: &Targets<'_, T>, some: &[Candidate], room: &mut Room) {
        if some.is_empty() {
            return;
        }
        let dim = targets.dim;
        room.rows.clear();
        for candidate in some {
            let row = &targets.rows[candidate.target * dim..][..dim];
            room.rows.extend_from_slice(T::widen(row, &mut room.wide));
        }
        room.rows
            .resize(some.len().next_multiple_of(ROWS) * dim, 0.0);
        multiply_one(self.row, &room.rows, &mut room.products);
        let found = some.iter().map(|candidate| candidate.target);
        self.insert(targets, found.zip(&room.products));
        self.counts.rescored += some.len() as u64;
    }

    /// Gives up the filter if too many targets were scored.
    pub fn give_up(&mut self, targets: usize) {
        let spent = self.counts.rescored as usize + self.unfiltered / SHARE_OF_TILE;
        if spent > MOST_SCORED + targets / SHARE_SCORED {
            self.counts.fallback_queries = 1;
        }
    }

    /// Inserts products into the list: the highest score first, of equal scores the lower index.
    fn insert<'p, T: Scalar>(
        &mut self,
        targets: &Targets<'_, T>,
        products: impl Iterator<Item = (usize, &'p f32)>,
    ) {
        let last = self.scores.len() - 1;
        for (target, product) in products {
            let (score, index) = (product * self.norm * targets.norms[target], target as u32);
            let is_before = |other: f32, at: u32| score > other || (score == other && index < at);
            if !is_before(self.scores[last], self.indices[last]) || score == f32::NEG_INFINITY {
                continue;
            }
            let mut place = last;
            while place > 0 && is_before(self.scores[place - 1], self.indices[place - 1]) {
                self.scores[place] = self.scores[place - 1];
                self.indices[place] = self.indices[place - 1];
                place -= 1;
            }
            self.scores[place] = score;
            self.indices[place] = index;
        }
    }
}

/// Scores a tile for some queries without the filter.
pub(super) fn take_all<T: Scalar>(
    targets: &Targets<'_, T>,
    tile: Range<usize>,
    queries: Vec<&mut Query<'_>>,
    room: &mut Room,
) {
    if queries.is_empty() {
        return;
    }
    room.rows.clear();
    for query in &queries {
        room.rows.extend_from_slice(query.row);
    }
    let dim = targets.dim;
    let rows = T::widen(
        &targets.rows[tile.start * dim..tile.end * dim],
        &mut room.wide,
    );
    multiply(&room.rows, rows, dim, &mut room.products);
    for (query, products) in queries
        .into_iter()
        .zip(room.products.chunks_exact(tile.len()))
    {
        query.insert(targets, tile.clone().zip(products));
        if query.is_filtered() {
            query.unfiltered += tile.len();
        }
    }
}

impl<T> Targets<'_, T> {
    /// False only if the exact score is below `least`.
    fn reaches(&self, query: RowBound, candidate: Candidate, least: f32) -> bool {
        let target = self.narrow.bounds[candidate.target];
        self.bound.reaches(query, target, candidate.score, least)
    }
}
