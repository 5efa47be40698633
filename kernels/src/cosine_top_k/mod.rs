//! Batch cosine similarity with top-k.

mod cpu;
#[cfg(feature = "sim")]
pub(crate) mod sim;

pub use cpu::{Scalar, cosine_top_k_cpu, row_inverse_norms_cpu};

use crate::error::{KernelError, Result, length};
use crate::workspace::Workspace;
use cuda_um::{Device, Kernel, LaunchConfig, Module, ReadArg, Stream, WriteArg};
use half::f16;

/// Queries and targets of a tile; cuda/cosine_top_k.cu has the same numbers.
const TILE: usize = 128;
const THREADS: u32 = 256;
/// The longest list: candidates are inserted one by one, which long lists make slow.
const LONGEST: usize = 1024;

/// An element type of targets that the device has a kernel for.
pub trait TargetScalar: Scalar + cuda_um::Element + private::Sealed {}

impl TargetScalar for f32 {}
impl TargetScalar for f16 {}

mod private {
    /// Which of the kernels for two element types.
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

/// The shapes of a batch: `queries` and `targets` are rows of `dim` elements, the results rows of `k`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopKShape {
    /// Rows of the queries.
    pub queries: usize,
    /// Rows of the targets.
    pub targets: usize,
    /// Elements of a row.
    pub dim: usize,
    /// Targets wanted for each query.
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
}

impl CosineTopK {
    /// Loads the kernels.
    ///
    /// # Errors
    /// The device refuses the module.
    pub fn load(device: &Device) -> Result<Self> {
        crate::load(
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
                })
            },
        )
    }

    /// Enqueues the search: for each query the `k` targets of the highest cosine, into rows of `scores` and `indices`; the
    /// highest first, among equal ones the lower index. Vectors need not be normalised. A row of zeros has cosine 0 with all;
    /// a NaN never gets into a list, whose last places then hold −∞ and `u32::MAX`.
    ///
    /// The score matrix is never written: device memory is needed for the norms and for a list a query and chunk of targets. It is
    /// kept for the next launch.
    ///
    /// # Ordering
    /// Stream-ordered: enqueued when this returns, after whatever used the buffers before on any stream.
    ///
    /// # Errors
    /// A buffer's length does not fit the shape, `k` is 0, more than the targets or more than 1024, device memory is missing, or
    /// a launch fails.
    #[allow(unsafe_code, reason = "launches kernels whose source is beside it")]
    pub fn launch<T: TargetScalar>(
        &self,
        stream: &Stream,
        shape: TopKShape,
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
        shape.check()?;
        let product = |a: usize, b: usize| a.saturating_mul(b);
        length(NAME, "queries", product(query_count, dim), queries.len())?;
        length(NAME, "targets", product(target_count, dim), targets.len())?;
        length(NAME, "scores", product(query_count, k), scores.len())?;
        length(NAME, "indices", product(query_count, k), indices.len())?;
        if query_count == 0 {
            return Ok(());
        }
        let half = usize::from(<T as private::Sealed>::HALF);
        let mut query_norms = self.query_norms.hold(query_count)?;
        let mut target_norms = self.target_norms.hold(target_count)?;
        let (chunk, chunks) = self.chunks(shape);
        let lists = product(product(query_count, chunks), k);
        let mut part_scores = self.part_scores.hold(lists)?;
        let mut part_indices = self.part_indices.hold(lists)?;
        let (queries64, targets64, dim64) = (query_count as u64, target_count as u64, dim as u64);
        let grid = [query_count.div_ceil(TILE) as u32, chunks as u32, 1];
        // SAFETY: the arguments are those of the kernels in cuda/cosine_top_k.cu, which stay inside the rows that the shape
        // names: every buffer's length was checked against it, or was made for it.
        unsafe {
            self.norms[0].launch(
                stream,
                warps(query_count),
                (queries, &mut *query_norms, queries64, dim64),
            )?;
            self.norms[half].launch(
                stream,
                warps(target_count),
                (targets, &mut *target_norms, targets64, dim64),
            )?;
            let config = LaunchConfig {
                grid,
                block: [THREADS, 1, 1],
                shared_bytes: 0,
            };
            self.partial[half].launch(
                stream,
                config,
                (
                    queries,
                    targets,
                    &*query_norms,
                    &*target_norms,
                    &mut *part_scores,
                    &mut *part_indices,
                    queries64,
                    targets64,
                    dim64,
                    chunk as u64,
                    k as u32,
                ),
            )?;
            let config = LaunchConfig {
                grid: [query_count.div_ceil(64) as u32, 1, 1],
                block: [64, 1, 1],
                shared_bytes: 0,
            };
            self.merge.launch(
                stream,
                config,
                (
                    &*part_scores,
                    &*part_indices,
                    scores,
                    indices,
                    queries64,
                    chunks as u64,
                    k as u32,
                ),
            )?;
        }
        Ok(())
    }

    /// Targets of a chunk, and chunks: enough blocks to fill the device a few times, each with a whole number of tiles.
    fn chunks(&self, shape: TopKShape) -> (usize, usize) {
        let wanted = 4 * self.device.capabilities().multiprocessors as usize;
        let chunks = wanted
            .div_ceil(shape.queries.div_ceil(TILE))
            .clamp(1, shape.targets.div_ceil(TILE));
        let chunk = shape.targets.div_ceil(chunks).next_multiple_of(TILE);
        (chunk, shape.targets.div_ceil(chunk))
    }
}

const NAME: &str = "cosine_top_k";

impl TopKShape {
    fn check(self) -> Result<()> {
        let refuse = |parameter, found, allowed| {
            Err(KernelError::Value {
                kernel: NAME,
                parameter,
                found,
                allowed,
            })
        };
        // A target's index is a u32, one value of which marks an open place; a grid has at most 2^31 - 1 blocks.
        let most = (u32::MAX - 1) as usize;
        match self {
            Self { dim: 0, .. } => refuse("dim", 0, "at least 1".to_owned()),
            Self { targets, .. } if targets > most => {
                refuse("targets", targets, format!("at most {most}"))
            }
            Self { queries, .. } if queries > most => {
                refuse("queries", queries, format!("at most {most}"))
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
}

/// A warp a row.
fn warps(rows: usize) -> LaunchConfig {
    LaunchConfig {
        grid: [rows.div_ceil(8) as u32, 1, 1],
        block: [THREADS, 1, 1],
        shared_bytes: 0,
    }
}
