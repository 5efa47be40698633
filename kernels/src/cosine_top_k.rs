//! Batch cosine similarity with top-k.

pub(crate) mod cpu;
mod shape;

pub use shape::TopKShape;

use crate::error::argument;
use crate::grid;
use cuda_um::{
    Device, DeviceBuffer, Kernel, Module, Result, Stream, View, constant,
    kernel::{ReadArg, WriteArg},
};
use std::mem::MaybeUninit;

const NAME: &str = "cosine_top_k";

/// The kernels of batch cosine similarity, loaded on a device.
#[derive(Debug)]
pub struct CosineTopK {
    device: Device,
    scales: Kernel,
    partial: Kernel,
    merge: Kernel,
}

impl CosineTopK {
    /// Loads the kernels.
    ///
    /// # Errors
    /// The device refuses the module.
    pub fn load(device: &Device) -> Result<Self> {
        let module = Module::load(device, include_str!("../ptx/cosine_top_k.ptx"))?;
        Ok(Self {
            device: device.clone(),
            scales: module.kernel("row_scales")?,
            partial: module.kernel("cosine_top_k_partial")?,
            merge: module.kernel("cosine_top_k_merge")?,
        })
    }

    /// Enqueues the search for the `k` targets with the highest cosine for each query.
    ///
    /// The shapes are `queries [Q, D]`, `targets [N, D]`, `scores [Q, k]` and `indices [Q, k]`, row-major, with Q, N, D and k
    /// from `shape`. `indices` are rows of `targets`. The highest cosine comes first; for equal cosines the lower index comes
    /// first. Vectors need not be normalised: rows of any finite length have the right cosine, but for the rounding of sums in
    /// single precision. At worst it is 10⁻⁵ for rows of 8192 elements, and in proportion to their number (measured with rows of
    /// equal elements). A row of zeros has cosine 0 with every row. A NaN is never in a list; the last places of the list then
    /// hold −∞ and `u32::MAX`.
    ///
    /// The score matrix is never written. The search allocates device memory for two numbers of each row, and for a list for
    /// each query and chunk of the targets.
    ///
    /// # Ordering
    /// Stream-ordered: enqueued when this returns, after all earlier uses of the buffers on any stream.
    ///
    /// # Errors
    /// The length of a buffer does not fit the shape, `dim` is 0, `k` is 0, more than the number of targets or more than 1024,
    /// device memory is missing, or a launch fails.
    #[allow(unsafe_code, reason = "launches kernels of this crate")]
    pub fn launch(
        &self,
        stream: &Stream,
        shape: TopKShape,
        queries: impl ReadArg<f32>,
        targets: impl ReadArg<f32>,
        scores: impl WriteArg<f32>,
        indices: impl WriteArg<u32>,
    ) -> Result<()> {
        let (queries, targets, scores, indices) = (
            argument(NAME, "queries", queries.into_view())?,
            argument(NAME, "targets", targets.into_view())?,
            argument(NAME, "scores", scores.into_view_mut())?,
            argument(NAME, "indices", indices.into_view_mut())?,
        );
        shape.check([queries.len(), targets.len(), scores.len(), indices.len()])?;
        if shape.queries == 0 {
            return Ok(());
        }
        let (chunk, chunks) = shape.chunks(self.device.capabilities().multiprocessors as usize);
        let entries = shape.queries.saturating_mul(chunks).saturating_mul(shape.k);
        let query_scales = self.scales(stream, queries, shape.queries, shape.dim)?;
        let target_scales = self.scales(stream, targets, shape.targets, shape.dim)?;
        let mut part_scores = DeviceBuffer::<f32>::uninit(&self.device, entries)?;
        let mut part_indices = DeviceBuffer::<u32>::uninit(&self.device, entries)?;
        let query_count = constant(shape.queries as u64);
        let k = constant(shape.k as u32);
        // SAFETY: the arguments are those of the kernels in cuda/cosine_top_k.cu, which stay inside the rows of the shape. The
        // lengths were checked, and the lists have room for every query and chunk.
        unsafe {
            self.partial.launch(
                stream,
                shape::blocks(shape.queries.div_ceil(shape::TILE), chunks),
                (
                    queries,
                    targets,
                    &query_scales,
                    &target_scales,
                    &mut part_scores,
                    &mut part_indices,
                    query_count,
                    constant(shape.targets as u64),
                    constant(shape.dim as u64),
                    constant(chunk as u64),
                    k,
                ),
            )?;
            self.merge.launch(
                stream,
                grid::strided(&self.device, entries),
                (
                    &part_scores,
                    &part_indices,
                    scores,
                    indices,
                    query_count,
                    constant(chunks as u64),
                    k,
                ),
            )
        }
    }

    /// Enqueues the powers of two and inverse norms of `rows [count, dim]`.
    #[allow(unsafe_code, reason = "launches a kernel of this crate")]
    fn scales(
        &self,
        stream: &Stream,
        rows: View<'_, f32>,
        count: usize,
        dim: usize,
    ) -> Result<DeviceBuffer<MaybeUninit<[f32; 2]>>> {
        let mut scales = DeviceBuffer::<[f32; 2]>::uninit(&self.device, count)?;
        // SAFETY: the arguments are those of `row_scales` in cuda/cosine_top_k.cu, which reads the rows and writes two numbers
        // for each.
        unsafe {
            self.scales.launch(
                stream,
                // One warp for each row.
                shape::blocks(count.div_ceil(grid::BLOCK as usize / 32), 1),
                (
                    rows,
                    &mut scales,
                    constant(count as u64),
                    constant(dim as u64),
                ),
            )?;
        }
        Ok(scales)
    }
}
