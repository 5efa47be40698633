//! The exact search on a CPU: the lists of [`cosine_top_k_cpu`](crate::cosine_top_k_cpu), bit for bit, through a filter in 8-bit
//! integers.

mod products;
mod query;
mod rows;

use super::bound::{Bound, RowBound};
use super::choose::Path;
use super::filter::Filter;
use super::modules::FilterKernels;
use super::{Format, SearchCounts, bound};
use crate::cosine_top_k::cpu::{Scalar, Vectors, best_of, multiply, row_inverse_norms_cpu};
use crate::metric::Metric;
use query::{Query, Room, Targets};
use rayon::prelude::*;
use rows::NarrowTargets;

/// Targets of a tile: a multiple of a panel.
const TILE: usize = 512;
/// Limit on the queries of a task, which searches all targets.
const GROUP: usize = 96;
/// With fewer queries, the conversion of the targets takes longer than it saves.
const FEWEST_QUERIES: usize = 128;
/// With fewer targets, too many of them are candidates.
const FEWEST_TARGETS: usize = 8192;

/// Targets in host memory for searches on the CPU: `rows [N, dim]`, row-major, their inverse norms, and for a filter a copy in 8
/// bits, which needs a quarter of the bytes of rows in single precision.
///
/// The lists are those of [`cosine_top_k_cpu`](crate::cosine_top_k_cpu), bit for bit; `docs/exact-search.md` has the proof.
///
/// # Examples
/// ```
/// use um_kernels::{CpuTargets, Filter};
/// let targets = CpuTargets::new(&[1.0f32, 0.0, 0.0, 1.0], 2, Filter::Int8, 1);
/// let (mut scores, mut indices) = ([0.0; 2], [0; 2]);
/// targets.search(&[3.0, 4.0], 2, &mut scores, &mut indices);
/// assert_eq!(indices, [1, 0]);
/// ```
#[derive(Debug)]
pub struct CpuTargets<'a, T> {
    rows: &'a [T],
    dim: usize,
    norms: Vec<f32>,
    filter: Result<Copy, String>,
}

/// The targets for the filter.
#[derive(Debug)]
struct Copy {
    kernels: FilterKernels,
    reason: &'static str,
    narrow: NarrowTargets,
    bound: Bound,
    /// The largest bounds of each tile.
    tile_bounds: Vec<RowBound>,
}

impl<'a, T: Scalar> CpuTargets<'a, T> {
    /// Computes the inverse norms, and converts the targets if `filter` says so. [`Filter::Auto`] uses the filter if the CPU has dot
    /// products of 8-bit integers (AVX-512 VNNI or AVX-VNNI) and if it is faster for `queries`, the expected number of queries of
    /// all searches. [`Filter::Bf16`] and [`Filter::F16`] use no filter, because a CPU has none. It runs on all threads of rayon's
    /// pool, and is done when it returns.
    ///
    /// # Panics
    /// If `dim` is 0, or the length of `rows` is not a multiple of it.
    pub fn new(rows: &'a [T], dim: usize, filter: Filter, queries: usize) -> Self {
        assert!(
            dim > 0 && rows.len().is_multiple_of(dim),
            "rows of {dim} elements"
        );
        let count = rows.len() / dim;
        let (kernels, reason) = match choose(filter, count, dim, queries) {
            Ok(chosen) => chosen,
            Err(reason) => {
                let mut norms = vec![0.0; count];
                row_inverse_norms_cpu(rows, dim, &mut norms);
                let filter = Err(reason);
                return Self {
                    rows,
                    dim,
                    norms,
                    filter,
                };
            }
        };
        let bound = Bound::new(dim, Metric::Cosine, Format::Int8);
        let (norms, narrow) = rows::narrow_targets(rows, dim, bound);
        let largest = |bounds: &[RowBound]| {
            let larger = |a: RowBound, b: &RowBound| [a[0].max(b[0]), a[1].max(b[1])];
            bounds.iter().fold([0.0; 2], larger)
        };
        let filter = Ok(Copy {
            kernels,
            reason,
            tile_bounds: narrow.bounds.chunks(TILE).map(largest).collect(),
            narrow,
            bound,
        });
        Self {
            rows,
            dim,
            norms,
            filter,
        }
    }

    /// The filter's kernels and format, and the reason.
    pub fn path(&self) -> Path {
        match &self.filter {
            Ok(copy) => Path {
                filter: Some((copy.kernels, Format::Int8)),
                reason: copy.reason.to_owned(),
            },
            Err(reason) => Path {
                filter: None,
                reason: reason.clone(),
            },
        }
    }

    /// The `k` targets with the highest cosine for each of the `queries [Q, dim]`, row-major: the lists of
    /// [`cosine_top_k_cpu`](crate::cosine_top_k_cpu), bit for bit, in `scores [Q, k]` and `indices [Q, k]`. It runs on all threads of
    /// rayon's pool, and is done when it returns. Without a filter all counts are 0.
    ///
    /// # Panics
    /// If the shapes do not fit: the length of `queries` is not a multiple of `dim`, `k` is 0 or more than the number of targets,
    /// or an output does not have Q × `k` elements.
    pub fn search(
        &self,
        queries: &[f32],
        k: usize,
        scores: &mut [f32],
        indices: &mut [u32],
    ) -> SearchCounts {
        let (dim, count) = (self.dim, self.norms.len());
        assert!(queries.len().is_multiple_of(dim), "rows of {dim} elements");
        let query_count = queries.len() / dim;
        assert!(
            (1..=count).contains(&k),
            "k is {k}; there are {count} targets"
        );
        assert!(
            scores.len() == query_count * k && indices.len() == scores.len(),
            "the outputs hold {query_count} rows of {k}"
        );
        let mut query_norms = vec![0.0; query_count];
        row_inverse_norms_cpu(queries, dim, &mut query_norms);
        let Ok(copy) = &self.filter else {
            let vectors = Vectors {
                queries,
                targets: self.rows,
                query_norms: &query_norms,
                target_norms: &self.norms,
                dim,
            };
            best_of(multiply, vectors, k, 0..count, k, scores, indices);
            return SearchCounts::default();
        };
        // As many tasks as threads, or a multiple.
        let threads = rayon::current_num_threads();
        let tasks = query_count.div_ceil(GROUP).max(1).next_multiple_of(threads);
        let group = query_count.div_ceil(tasks).max(1);
        queries
            .par_chunks(group * dim)
            .zip(query_norms.par_chunks(group))
            .zip(scores.par_chunks_mut(group * k))
            .zip(indices.par_chunks_mut(group * k))
            .map(|(((queries, norms), scores), indices)| {
                let lists = scores.chunks_mut(k).zip(indices.chunks_mut(k));
                self.search_group(copy, queries.chunks(dim).zip(norms).zip(lists))
            })
            .reduce(SearchCounts::default, SearchCounts::plus)
    }

    /// Searches all targets for a group of queries, tile by tile.
    fn search_group<'q>(
        &self,
        copy: &Copy,
        queries: impl Iterator<Item = ((&'q [f32], &'q f32), (&'q mut [f32], &'q mut [u32]))>,
    ) -> SearchCounts {
        let targets = Targets {
            rows: self.rows,
            dim: self.dim,
            norms: &self.norms,
            narrow: &copy.narrow,
            bound: copy.bound,
        };
        let mut group: Vec<Query<'_>> = queries
            .map(|((row, norm), lists)| Query::new(row, *norm, copy.bound, lists))
            .collect();
        let (mut words, mut is_old) = (Vec::new(), true);
        let (mut sums, mut room) = (Vec::new(), Room::default());
        for (tile, tile_bound) in (0..).step_by(TILE).zip(&copy.tile_bounds) {
            let tile = tile..self.norms.len().min(tile + TILE);
            if is_old {
                words = words_of(&group);
            }
            let (panels, columns) = copy.narrow.panels_of(tile.clone());
            let steps = rows::steps(self.dim);
            sums.resize(words.len() / steps * columns, 0);
            products::products(copy.kernels, &words, panels, steps, &mut sums);
            let mut rows = sums.chunks_exact(columns);
            let (mut rest, mut filtered) = (Vec::new(), 0);
            for query in &mut group {
                let done = query.is_filtered() && {
                    filtered += 1;
                    let sums = &rows.next().expect("a row for each of these queries")[..tile.len()];
                    query.take(&targets, tile.clone(), *tile_bound, sums, &mut room)
                };
                if !done {
                    rest.push(&mut *query);
                }
            }
            query::take_all(&targets, tile.clone(), rest, &mut room);
            group
                .iter_mut()
                .for_each(|query| query.give_up(self.norms.len()));
            is_old = filtered != group.iter().filter(|query| query.is_filtered()).count();
        }
        let mut counts = SearchCounts::default();
        for mut query in group {
            query.finish(&targets, &mut room);
            counts = counts.plus(query.counts);
        }
        counts
    }
}

/// The numbers in 8 bits of the queries that are filtered.
fn words_of(group: &[Query<'_>]) -> Vec<i32> {
    let filtered = group.iter().filter(|query| query.is_filtered());
    filtered.flat_map(|query| &query.words).copied().collect()
}

/// The filter's kernels, or the reason why no filter is used.
fn choose(
    filter: Filter,
    targets: usize,
    dim: usize,
    queries: usize,
) -> Result<(FilterKernels, &'static str), String> {
    if dim > bound::LONGEST_ROW {
        return Err(format!(
            "rows of more than {} elements have no bound",
            bound::LONGEST_ROW
        ));
    }
    let kernels = products::best_kernels();
    match filter {
        Filter::Off => Err("the filter is off".to_owned()),
        Filter::Bf16 | Filter::F16 => {
            Err("on a CPU only the filter in 8 bits is faster".to_owned())
        }
        Filter::Int8 => Ok((kernels, "requested")),
        Filter::Auto if kernels == FilterKernels::Portable => {
            Err("the CPU has no dot products of 8-bit integers".to_owned())
        }
        Filter::Auto if queries < FEWEST_QUERIES => {
            Err(format!("fewer than {FEWEST_QUERIES} queries"))
        }
        Filter::Auto if targets < FEWEST_TARGETS => {
            Err(format!("fewer than {FEWEST_TARGETS} targets"))
        }
        Filter::Auto => Ok((kernels, "chosen for the shape")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cosine_top_k::cpu::inverse_norm;

    /// Nearly normal numbers.
    fn noise(seed: u64, count: usize) -> Vec<f32> {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut next = || {
            state ^= state >> 12;
            state ^= state << 25;
            state ^= state >> 27;
            let bytes = state.wrapping_mul(0x2545_F491_4F6C_DD1D).to_be_bytes();
            bytes[..4].iter().map(|byte| f32::from(*byte)).sum::<f32>() - 510.0
        };
        (0..count).map(|_| next()).collect()
    }

    /// The largest |filter's score − exact score| of all pairs, as a share of its bound.
    fn largest_error(queries: &[f32], targets: &[f32], dim: usize) -> f64 {
        let bound = Bound::new(dim, Metric::Cosine, Format::Int8);
        let (norms, narrow) = rows::narrow_targets(targets, dim, bound);
        let (panels, columns) = narrow.panels_of(0..norms.len());
        let steps = rows::steps(dim);
        let of_query = |row: &[f32], exact: &[f32]| {
            let mut words = vec![0; steps];
            let norm = inverse_norm(row);
            let (scale, of_query) = rows::narrow_row(row, norm, bound, &mut words);
            let mut sums = vec![0; columns];
            products::products(products::best_kernels(), &words, panels, steps, &mut sums);
            let elements: &[i8] = bytemuck::cast_slice(&words);
            let excess = 128 * elements.iter().map(|one| i32::from(*one)).sum::<i32>();
            let pairs = exact.iter().zip(&norms).enumerate();
            let shares = pairs.map(|(at, (product, target_norm))| {
                let score = (sums[at] - excess) as f32 * narrow.scales[at] * scale;
                let difference = f64::from(score) - f64::from(product * norm * target_norm);
                difference.abs() / f64::from(bound.error(of_query, narrow.bounds[at]))
            });
            shares.fold(0.0, f64::max)
        };
        let of_some = |some: &[f32]| {
            let mut exact = Vec::new();
            multiply(some, targets, dim, &mut exact);
            let rows = some.chunks(dim).zip(exact.chunks(norms.len()));
            rows.map(|(row, exact)| of_query(row, exact))
                .fold(0.0, f64::max)
        };
        queries
            .par_chunks(64 * dim)
            .map(of_some)
            .reduce(|| 0.0, f64::max)
    }

    /// With `CUDA_UM_TEST_EXACT=large` 10^9 pairs.
    #[test]
    fn no_error_exceeds_the_bound() {
        let is_large = std::env::var("CUDA_UM_TEST_EXACT").is_ok_and(|size| size == "large");
        let (queries, targets, times, dim) = if is_large {
            (1000, 10_000, 100, 768)
        } else {
            (20, 3000, 1, 96)
        };
        let largest = (0..times).map(|time| {
            let (queries, targets) = (
                noise(time, queries * dim),
                noise(1000 + time, targets * dim),
            );
            largest_error(&queries, &targets, dim)
        });
        let largest = largest.fold(0.0, f64::max);
        println!(
            "{} pairs: the largest error is {largest:.3} of the bound",
            queries * targets * times as usize
        );
        assert!(largest < 1.0 && largest > 0.02, "{largest}");
    }
}
