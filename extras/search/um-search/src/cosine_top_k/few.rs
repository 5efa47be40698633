//! Searches for few queries, which the memory limits: each target is read once. On any device; few_80.rs has faster ones.

use super::few_kernels::FewKernels;
use super::types::{TargetScalar, type_index};
use super::{Buffers, CosineTopK, TopKShape};
use crate::error::Result;
use crate::metric::Metric;
use cuda_um::{Kernel, LaunchConfig, Stream, View, ViewMut, constant, kernel::KernelArg};

/// Threads of a block, and targets that it scores at a time.
const THREADS: usize = 128;
/// Blocks that a multiprocessor runs at the same time.
const RESIDENT: usize = 4;
/// Elements of a row, of which a whole number lets the kernel compute the norms itself.
const NORM_STEP: usize = 128;

impl CosineTopK {
    fn few_kernels(&self) -> Result<&FewKernels> {
        if let Some(kernels) = self.few.get() {
            return Ok(kernels);
        }
        // Not inside of a lock, because it sends events: two threads may both load them.
        let loaded = FewKernels::load(&self.device)?;
        Ok(self.few.get_or_init(|| loaded))
    }

    /// The same as `launch_as`, for [`is_few`] queries. The lengths of the buffers were checked.
    pub(super) fn launch_few<T: TargetScalar>(
        &self,
        stream: &Stream,
        shape: TopKShape,
        metric: Metric,
        buffers: Buffers<View<'_, f32>, View<'_, T>, ViewMut<'_, f32>, ViewMut<'_, u32>>,
    ) -> Result<()> {
        let (queries, targets, dim) = (buffers.queries, buffers.targets, shape.dim);
        if let Some(kernels) = self.few_80(dim, queries, targets)? {
            return self.launch_few_80(stream, shape, metric, kernels, buffers);
        }
        let kernels = self.few_kernels()?;
        let kernel = kernels.of(shape.queries, type_index::<T>());
        if metric == Metric::InnerProduct {
            let ones = self.ones(stream, shape.queries.max(shape.targets))?;
            return self.few_lists(stream, shape, kernel, buffers, (&*ones, &*ones, false));
        }
        let room = &self.query_norms;
        let query_norms = self.inverse_norms(stream, 0, queries, (shape.queries, dim), room)?;
        let aligned = (targets.as_ptr() as usize).is_multiple_of(4 * size_of::<T>());
        let own = aligned && dim.is_multiple_of(NORM_STEP);
        let mut norms = if own {
            self.target_norms.hold(shape.targets)?
        } else {
            let (index, rows) = (type_index::<T>(), (shape.targets, dim));
            self.inverse_norms(stream, index, targets, rows, &self.target_norms)?
        };
        let norms = (&*query_norms, &mut *norms, own);
        self.few_lists(stream, shape, kernel, buffers, norms)
    }

    /// Computes the lists from the norms; `own`: the kernel computes those of the targets.
    #[allow(unsafe_code, reason = "launches kernels of this crate")]
    fn few_lists<T: TargetScalar>(
        &self,
        stream: &Stream,
        shape: TopKShape,
        kernel: &Kernel,
        buffers: Buffers<View<'_, f32>, View<'_, T>, ViewMut<'_, f32>, ViewMut<'_, u32>>,
        (query_norms, target_norms, own): (impl KernelArg, impl KernelArg, bool),
    ) -> Result<()> {
        let (chunk, chunks) = chunks(shape, self.device.capabilities().multiprocessors as usize);
        let mut parts = self.room(shape, chunks)?;
        let config = LaunchConfig {
            grid: [1, chunks as u32, 1],
            block: [THREADS as u32, 1, 1],
            shared_bytes: 0,
        };
        let arguments = (
            buffers.queries,
            buffers.targets,
            query_norms,
            target_norms,
            &mut *parts.scores,
            &mut *parts.indices,
            constant(shape.queries as u64),
            constant(shape.targets as u64),
            constant(shape.dim as u64),
            constant(chunk as u64),
            constant(shape.k as u32),
            constant(u32::from(own)),
        );
        // SAFETY: the arguments are those of the kernels in cuda/cosine_top_k_few.cu and cuda/cosine_top_k.cu, which stay inside
        // the rows of the shape. The length of every buffer was checked, or it was allocated for this shape.
        unsafe {
            kernel.launch(stream, config, arguments)?;
            self.merge(stream, shape, &parts, (buffers.scores, buffers.indices))
        }
    }
}

/// Targets of a chunk and number of chunks: one for each block that can run at the same time, and not shorter than its list.
fn chunks(shape: TopKShape, multiprocessors: usize) -> (usize, usize) {
    let tiles = shape.targets.div_ceil(THREADS);
    let each = tiles
        .div_ceil(RESIDENT * multiprocessors)
        .max(shape.k.div_ceil(THREADS));
    (each * THREADS, tiles.div_ceil(each))
}
