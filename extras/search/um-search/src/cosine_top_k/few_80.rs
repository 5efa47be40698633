//! Searches for few queries on compute capability 8.0 and newer, as fast as a plain read of the targets.

use super::few_kernels::Few80;
use super::types::{TargetScalar, type_index};
use super::{Buffers, CosineTopK, TopKShape};
use crate::error::Result;
use crate::metric::Metric;
use cuda_um::{LaunchConfig, Stream, View, ViewMut, constant};

/// Targets of a tile; cuda/cosine_top_k_few_80.cu uses the same numbers.
const TILE: usize = 128;
const THREADS: u32 = 64;
/// Bytes of a target in a stage of the copies. There are two stages.
const LINE: usize = 128;
/// Each copy has so many bytes, and begins at a multiple of them.
const COPIED: usize = 16;
/// The norms are sums of so many elements at a time.
const STEP: usize = 128;
/// Blocks that a multiprocessor runs at the same time.
const RESIDENT: usize = 4;

impl CosineTopK {
    /// The kernels, if they can run on the device, with these rows.
    pub(super) fn few_80<T: TargetScalar>(
        &self,
        dim: usize,
        queries: View<'_, f32>,
        targets: View<'_, T>,
    ) -> Result<Option<&Few80>> {
        let starts = [queries.as_ptr() as usize, targets.as_ptr() as usize];
        let fits = self.device.capabilities().compute_capability >= (8, 0)
            && dim.is_multiple_of(STEP)
            && starts.iter().all(|start| start.is_multiple_of(COPIED));
        if !fits {
            return Ok(None);
        }
        if let Some(kernels) = self.few_80.get() {
            return Ok(Some(kernels));
        }
        // Not inside of a lock, because it sends events: two threads may both load them.
        let loaded = Few80::load(&self.device)?;
        Ok(Some(self.few_80.get_or_init(|| loaded)))
    }

    /// The same as `launch_few`, with these kernels.
    #[allow(unsafe_code, reason = "launches kernels of this crate")]
    pub(super) fn launch_few_80<T: TargetScalar>(
        &self,
        stream: &Stream,
        shape: TopKShape,
        metric: Metric,
        kernels: &Few80,
        buffers: Buffers<View<'_, f32>, View<'_, T>, ViewMut<'_, f32>, ViewMut<'_, u32>>,
    ) -> Result<()> {
        let multiprocessors = self.device.capabilities().multiprocessors as usize;
        let mut parts = self.room(shape, blocks(shape, multiprocessors))?;
        let mut norms = self.query_norms.hold(shape.queries)?;
        let mut next = kernels.next.hold(1)?;
        let dim = constant(shape.dim as u64);
        let cosine = constant(u32::from(metric == Metric::Cosine));
        let each_query = LaunchConfig {
            grid: [shape.queries as u32, 1, 1],
            block: [32, 1, 1],
            shared_bytes: 0,
        };
        let tiles = LaunchConfig {
            grid: [1, parts.chunks as u32, 1],
            block: [THREADS, 1, 1],
            shared_bytes: shared_bytes::<T>(shape.queries),
        };
        // SAFETY: the arguments are those of the kernels in cuda/cosine_top_k_few_80.cu, which stay inside the rows of the shape. The
        // length of every buffer was checked, or it was allocated for this shape. Rows are aligned, and their length is a multiple
        // of `STEP`: the caller got the kernels from `few_80`.
        unsafe {
            let begin = (buffers.queries, &mut *norms, &mut *next, dim, cosine);
            kernels.begin.launch(stream, each_query, begin)?;
            let arguments = (
                buffers.queries,
                buffers.targets,
                &*norms,
                &mut *next,
                &mut *parts.scores,
                &mut *parts.indices,
                constant(shape.queries as u64),
                constant(shape.targets as u64),
                dim,
                constant(shape.k as u32),
                cosine,
            );
            kernels.lists[type_index::<T>()].launch(stream, tiles, arguments)?;
            self.merge(stream, shape, &parts, (buffers.scores, buffers.indices))
        }
    }
}

/// Blocks, each with a list: as many as can run at the same time, but not so many that they have fewer targets than their lists.
fn blocks(shape: TopKShape, multiprocessors: usize) -> usize {
    let tiles = shape.targets.div_ceil(TILE);
    (tiles / shape.k.div_ceil(TILE)).clamp(1, RESIDENT * multiprocessors)
}

/// Two stages of 128 targets and of the queries, with an even number of queries because there are two warps. At most 38 KiB, so that
/// the device need not allow it.
fn shared_bytes<T>(queries: usize) -> u32 {
    let elements = LINE / size_of::<T>();
    2 * (TILE * LINE + queries.next_multiple_of(2) * elements * size_of::<f32>()) as u32
}
