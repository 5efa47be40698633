//! Batch cosine similarity with top-k.

pub(crate) mod cpu;
#[cfg(feature = "sim")]
pub(crate) mod sim;

pub use cpu::{Scalar, cosine_top_k_cpu, row_inverse_norms_cpu};

use crate::error::{KernelError, Result, length};
use crate::metric::Metric;
use crate::workspace::Workspace;
use cuda_um::{
    Device, DeviceBuffer, Kernel, KernelArg, LaunchConfig, Module, ReadArg, Stream, WriteArg,
};
use half::f16;
use parking_lot::Mutex;
use std::mem::MaybeUninit;

/// Queries and targets of a tile; cuda/cosine_top_k.cu uses the same numbers.
const TILE: usize = 128;
const THREADS: u32 = 256;
/// The longest list: candidates are inserted one by one, which is slow for long lists.
const LONGEST: usize = 1024;
/// Each merged chunk needs 2 bytes of the 48 KiB of shared memory that a block always has.
const MOST_CHUNKS: usize = 24 << 10;

/// The longest row: the kernels count its stages of 16 elements with 32 bits.
const MOST_DIM: u64 = 16 * u32::MAX as u64;

/// An element type of targets that has a kernel.
pub trait TargetScalar: Scalar + cuda_um::Element + private::Sealed {}

impl TargetScalar for f32 {}
impl TargetScalar for f16 {}

mod private {
    /// Selects one of the kernels for two element types.
    pub trait Sealed {
        const HALF: bool;
    }
    impl Sealed for f32 {
        const HALF: bool = false;
    }
    impl Sealed for half::f16 {
        const HALF: bool = true;
    }
}

/// The shapes of a batch: `queries [queries, dim]`, `targets [targets, dim]`, and results `[queries, k]`, all row-major.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopKShape {
    /// Rows of the queries.
    pub queries: usize,
    /// Rows of the targets.
    pub targets: usize,
    /// Elements of a row.
    pub dim: usize,
    /// Length of the list of each query.
    pub k: usize,
}

/// The kernels of batch cosine similarity, loaded on a device.
#[derive(Debug)]
pub struct CosineTopK {
    device: Device,
    norms: [Kernel; 2],
    partial: [Kernel; 2],
    merge: Kernel,
    query_norms: Workspace<f32>,
    target_norms: Workspace<f32>,
    part_scores: Workspace<f32>,
    part_indices: Workspace<u32>,
    /// The norms for inner products: ones.
    ones: Mutex<Option<DeviceBuffer<f32>>>,
}

/// The kernels for queries that only the device knows.
#[derive(Debug)]
pub(crate) struct SomeKernels {
    partial: [Kernel; 2],
    merge: Kernel,
}

impl SomeKernels {
    pub(crate) fn load(device: &Device) -> Result<Self> {
        let ptx = include_str!("../../ptx/cosine_top_k_some.ptx");
        crate::load::load(device, ptx, |module: &Module| {
            Ok(Self {
                partial: [
                    module.kernel("cosine_top_k_partial_some_f32")?,
                    module.kernel("cosine_top_k_partial_some_f16")?,
                ],
                merge: module.kernel("cosine_top_k_merge_some")?,
            })
        })
    }
}

/// Queries that the filter passes to the fallback; only the device knows them.
pub(crate) struct Fallback<'a> {
    pub kernels: &'a SomeKernels,
    pub queries: &'a DeviceBuffer<MaybeUninit<f32>>,
    pub query_norms: &'a DeviceBuffer<MaybeUninit<f32>>,
    pub target_norms: &'a DeviceBuffer<MaybeUninit<f32>>,
    /// The number of these queries, then the rows of their results.
    pub some: &'a DeviceBuffer<MaybeUninit<u32>>,
}

/// The index of the kernel for targets of this type.
pub(crate) fn half_precision<T: TargetScalar>() -> usize {
    usize::from(<T as private::Sealed>::HALF)
}

impl CosineTopK {
    /// Loads the kernels.
    ///
    /// # Errors
    /// The device refuses the module.
    pub fn load(device: &Device) -> Result<Self> {
        crate::load::load(
            device,
            include_str!("../../ptx/cosine_top_k.ptx"),
            |module: &Module| {
                Ok(Self {
                    device: device.clone(),
                    norms: [
                        module.kernel("row_inverse_norms_f32")?,
                        module.kernel("row_inverse_norms_f16")?,
                    ],
                    partial: [
                        module.kernel("cosine_top_k_partial_f32")?,
                        module.kernel("cosine_top_k_partial_f16")?,
                    ],
                    merge: module.kernel("cosine_top_k_merge")?,
                    query_norms: Workspace::new(device),
                    target_norms: Workspace::new(device),
                    part_scores: Workspace::new(device),
                    part_indices: Workspace::new(device),
                    ones: Mutex::new(None),
                })
            },
        )
    }

    /// Enqueues the search for the `k` targets with the highest cosine for each query.
    ///
    /// The shapes are `queries [Q, D]`, `targets [N, D]`, `scores [Q, k]` and `indices [Q, k]`, row-major, with Q, N, D and k
    /// from `shape`. `indices` are rows of `targets`. The highest cosine comes first; for equal cosines the lower index comes
    /// first. Vectors need not be normalised. A row of zeros has cosine 0 with every row. A NaN is never in a list; the last
    /// places of the list then hold −∞ and `u32::MAX`.
    ///
    /// The score matrix is never written. The launcher needs device memory for the norms, and for a list for each query and
    /// chunk of targets. It keeps this memory for the next launch.
    ///
    /// # Ordering
    /// Stream-ordered: enqueued when this returns, after all earlier uses of the buffers on any stream.
    ///
    /// # Errors
    /// The length of a buffer does not fit the shape, `k` is 0, more than the number of targets or more than 1024, `dim` is 0
    /// or more than 16 × (2³² − 1), device memory is missing, or a launch fails.
    pub fn launch<T: TargetScalar>(
        &self,
        stream: &Stream,
        shape: TopKShape,
        queries: impl ReadArg<f32> + Copy,
        targets: impl ReadArg<T> + Copy,
        scores: impl WriteArg<f32>,
        indices: impl WriteArg<u32>,
    ) -> Result<()> {
        self.launch_as(
            stream,
            shape,
            Metric::Cosine,
            queries,
            targets,
            scores,
            indices,
        )
    }

    /// Like `launch`, for either metric.
    #[allow(unsafe_code, reason = "launches kernels of this crate")]
    #[allow(clippy::too_many_arguments, reason = "as `launch`")]
    pub(crate) fn launch_as<T: TargetScalar>(
        &self,
        stream: &Stream,
        shape: TopKShape,
        metric: Metric,
        queries: impl ReadArg<f32> + Copy,
        targets: impl ReadArg<T> + Copy,
        scores: impl WriteArg<f32>,
        indices: impl WriteArg<u32>,
    ) -> Result<()> {
        let TopKShape {
            queries: query_count,
            targets: target_count,
            dim,
            k,
        } = shape;
        shape.check(NAME)?;
        let product = |a: usize, b: usize| a.saturating_mul(b);
        length(NAME, "queries", product(query_count, dim), queries.len())?;
        length(NAME, "targets", product(target_count, dim), targets.len())?;
        length(NAME, "scores", product(query_count, k), scores.len())?;
        length(NAME, "indices", product(query_count, k), indices.len())?;
        if query_count == 0 {
            return Ok(());
        }
        let half = half_precision::<T>();
        match metric {
            Metric::Cosine => {
                let mut query_norms = self.query_norms.hold(query_count)?;
                let mut target_norms = self.target_norms.hold(target_count)?;
                // SAFETY: the arguments are those of the kernels in cuda/cosine_top_k.cu. They read the rows of the shape and
                // write a norm for each. The lengths of the buffers were checked, or the buffers were allocated for this shape.
                unsafe {
                    self.norms[0].launch(
                        stream,
                        warps(query_count),
                        (queries, &mut *query_norms, query_count as u64, dim as u64),
                    )?;
                    self.norms[half].launch(
                        stream,
                        warps(target_count),
                        (targets, &mut *target_norms, target_count as u64, dim as u64),
                    )?;
                }
                let norms = (&*query_norms, &*target_norms);
                self.lists(
                    stream, shape, half, queries, targets, norms, scores, indices,
                )
            }
            Metric::InnerProduct => {
                let mut ones = self.ones.lock();
                let count = query_count.max(target_count);
                if ones.as_ref().is_none_or(|ones| ones.len() < count) {
                    *ones = None;
                    ones.insert(DeviceBuffer::zeroed(&self.device, count)?)
                        .fill(1.0, stream)?;
                }
                let ones = ones.as_ref().expect("created above");
                self.lists(
                    stream,
                    shape,
                    half,
                    queries,
                    targets,
                    (ones, ones),
                    scores,
                    indices,
                )
            }
        }
    }

    /// Computes the lists from the norms.
    #[allow(unsafe_code, reason = "launches kernels of this crate")]
    #[allow(clippy::too_many_arguments, reason = "as `launch`")]
    fn lists<N: KernelArg>(
        &self,
        stream: &Stream,
        shape: TopKShape,
        half: usize,
        queries: impl KernelArg,
        targets: impl KernelArg,
        (query_norms, target_norms): (N, N),
        scores: impl KernelArg,
        indices: impl KernelArg,
    ) -> Result<()> {
        let multiprocessors = self.device.capabilities().multiprocessors as usize;
        let (chunk, chunks) = shape.chunks(multiprocessors);
        let lists = shape.queries.saturating_mul(chunks).saturating_mul(shape.k);
        let mut part_scores = self.part_scores.hold(lists)?;
        let mut part_indices = self.part_indices.hold(lists)?;
        // SAFETY: the arguments are those of the kernels in cuda/cosine_top_k.cu, which stay inside the rows of the shape. The
        // length of every buffer was checked, or the buffer was allocated for this shape.
        unsafe {
            self.partial[half].launch(
                stream,
                shape.partial_config(chunks),
                (
                    queries,
                    targets,
                    query_norms,
                    target_norms,
                    &mut *part_scores,
                    &mut *part_indices,
                    shape.queries as u64,
                    shape.targets as u64,
                    shape.dim as u64,
                    chunk as u64,
                    shape.k as u32,
                ),
            )?;
            self.merge.launch(
                stream,
                shape.merge_config(chunks),
                (
                    &*part_scores,
                    &*part_indices,
                    scores,
                    indices,
                    chunks as u64,
                    shape.k as u32,
                ),
            )?;
        }
        Ok(())
    }

    /// Computes the lists of the fallback queries, at most `shape.queries`.
    #[allow(unsafe_code, reason = "launches kernels of this crate")]
    pub(crate) fn launch_some<T: TargetScalar>(
        &self,
        stream: &Stream,
        shape: TopKShape,
        fallback: Fallback<'_>,
        targets: impl ReadArg<T>,
        scores: impl WriteArg<f32>,
        indices: impl WriteArg<u32>,
    ) -> Result<()> {
        let multiprocessors = self.device.capabilities().multiprocessors as usize;
        let (chunk, chunks) = shape.chunks(multiprocessors);
        let lists = shape.queries.saturating_mul(chunks).saturating_mul(shape.k);
        let mut part_scores = self.part_scores.hold(lists)?;
        let mut part_indices = self.part_indices.hold(lists)?;
        let half = half_precision::<T>();
        // SAFETY: as in `lists`, for no more queries than the shape has: each query goes to the fallback at most once, and its
        // rows are rows of the shape's results.
        unsafe {
            fallback.kernels.partial[half].launch(
                stream,
                shape.partial_config(chunks),
                (
                    fallback.queries,
                    targets,
                    fallback.query_norms,
                    fallback.target_norms,
                    &mut *part_scores,
                    &mut *part_indices,
                    fallback.some,
                    shape.targets as u64,
                    shape.dim as u64,
                    chunk as u64,
                    shape.k as u32,
                ),
            )?;
            fallback.kernels.merge.launch(
                stream,
                shape.merge_config(chunks),
                (
                    &*part_scores,
                    &*part_indices,
                    scores,
                    indices,
                    fallback.some,
                    chunks as u64,
                    shape.k as u32,
                ),
            )?;
        }
        Ok(())
    }
}

const NAME: &str = "cosine_top_k";

impl TopKShape {
    pub(crate) fn check(self, kernel: &'static str) -> Result<()> {
        let refuse = |parameter, found, allowed| {
            Err(KernelError::Value {
                kernel,
                parameter,
                found,
                allowed,
            })
        };
        // A target's index is a u32, and one value marks an empty place. A grid has at most 2^31 - 1 blocks, here one for each
        // query.
        let most = (u32::MAX - 1) as usize;
        let most_queries = i32::MAX as usize;
        match self {
            Self { dim: 0, .. } => refuse("dim", 0, "at least 1".to_owned()),
            Self { dim, .. } if dim as u64 > MOST_DIM => {
                refuse("dim", dim, format!("at most {MOST_DIM}"))
            }
            Self { targets, .. } if targets > most => {
                refuse("targets", targets, format!("at most {most}"))
            }
            Self { queries, .. } if queries > most_queries => {
                refuse("queries", queries, format!("at most {most_queries}"))
            }
            Self { k, targets, .. } if k == 0 || k > targets.min(LONGEST) => refuse(
                "k",
                k,
                format!(
                    "1 to {} (there are {targets} targets)",
                    targets.min(LONGEST)
                ),
            ),
            _ => Ok(()),
        }
    }

    fn partial_config(self, chunks: usize) -> LaunchConfig {
        LaunchConfig {
            grid: [self.queries.div_ceil(TILE) as u32, chunks as u32, 1],
            block: [THREADS, 1, 1],
            shared_bytes: 0,
        }
    }

    fn merge_config(self, chunks: usize) -> LaunchConfig {
        LaunchConfig {
            grid: [self.queries as u32, 1, 1],
            block: [32, 1, 1],
            shared_bytes: 2 * chunks as u32,
        }
    }

    /// Targets of a chunk (a multiple of the tile), and number of chunks. Each multiprocessor gets a few blocks, and about the
    /// same number of tiles.
    fn chunks(self, multiprocessors: usize) -> (usize, usize) {
        let (groups, tiles) = (self.queries.div_ceil(TILE), self.targets.div_ceil(TILE));
        // Half of the possible number, because rounding may double it.
        let wanted = (4 * multiprocessors)
            .div_ceil(groups)
            .clamp(1, tiles.min(MOST_CHUNKS / 2));
        // Long chunks are fewer. Short chunks may spread better, but they are not shorter than their list.
        let long = tiles.div_ceil(wanted);
        let short = (tiles / wanted).max(self.k.div_ceil(TILE)).min(long);
        let busiest = |tiles_each: usize| {
            (groups * tiles.div_ceil(tiles_each)).div_ceil(multiprocessors) * tiles_each
        };
        let better = busiest(short) < busiest(long);
        let chunk = TILE * if better { short } else { long };
        (chunk, self.targets.div_ceil(chunk))
    }
}

/// One warp for each row.
pub(crate) fn warps(rows: usize) -> LaunchConfig {
    LaunchConfig {
        grid: [rows.div_ceil(8) as u32, 1, 1],
        block: [THREADS, 1, 1],
        shared_bytes: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunks(multiprocessors: usize, queries: usize, targets: usize, k: usize) -> (usize, usize) {
        let dim = 768;
        let shape = TopKShape {
            queries,
            targets,
            dim,
            k,
        };
        shape.chunks(multiprocessors)
    }

    #[test]
    fn chunks_cover_the_targets_and_can_be_merged() {
        let most = u32::MAX as usize - 1;
        for multiprocessors in [1, 6, 132, 160, 100_000] {
            for queries in [1, 128, 129, 1000, 1 << 20] {
                for targets in [1, 128, 129, 1000, 9_000, 1_000_000, 3_000_000, most] {
                    for k in [1, 10, 1024] {
                        let (chunk, chunks) = chunks(multiprocessors, queries, targets, k);
                        assert!(chunk.is_multiple_of(TILE) && (1..=MOST_CHUNKS).contains(&chunks));
                        assert!(chunk * chunks >= targets && chunk * (chunks - 1) < targets);
                    }
                }
            }
        }
    }

    #[test]
    fn chunks_spread_over_the_multiprocessors() {
        assert_eq!(chunks(132, 1000, 1000, 10), (TILE, 8));
        // With two tiles in a chunk there would be 320 blocks, and some multiprocessors would have three: six tiles. With one
        // tile they have five.
        assert_eq!(chunks(132, 1000, 10_000, 10), (TILE, 79));
        assert_eq!(chunks(132, 1000, 10_000, 1000), (2 * TILE, 40));
        assert_eq!(chunks(132, 1000, 100_000, 10), (12 * TILE, 66));
        assert_eq!(chunks(132, 1000, 1_000_000, 10), (119 * TILE, 66));
    }
}
