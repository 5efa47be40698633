//! Batch cosine similarity with top-k.

pub(crate) mod cpu;
mod few;
mod few_80;
mod few_kernels;
mod shape;
mod types;
mod widen;

pub use cpu::{Scalar, cosine_top_k_cpu, row_inverse_norms_cpu};
pub use shape::TopKShape;
pub(crate) use shape::{is_few, list_bytes, warps};
pub use types::TargetScalar;
pub(crate) use types::{EachType, TYPES, each_type, type_index};

use crate::error::Result;
use crate::metric::Metric;
use crate::workspace::{Held, Spare, Workspace};
use cuda_um::{
    Device, DeviceBuffer, Kernel, Module, Stream, View, ViewMut, constant,
    kernel::{KernelArg, ReadArg, WriteArg},
};
use few_kernels::{Few80, FewKernels};
use std::mem::MaybeUninit;
use std::sync::{Arc, OnceLock};

const NAME: &str = "cosine_top_k";

/// The kernels of batch cosine similarity, loaded on a device.
#[derive(Debug)]
pub struct CosineTopK {
    device: Device,
    norms: EachType,
    scale: EachType,
    lists: ListKernels,
    query_norms: Workspace<f32>,
    target_norms: Workspace<f32>,
    part_scores: Workspace<f32>,
    part_indices: Workspace<u32>,
    /// The norms for inner products: ones.
    ones: Spare<Arc<DeviceBuffer<f32>>>,
    few: OnceLock<FewKernels>,
    few_80: OnceLock<Few80>,
    /// Queries in single precision, scaled.
    wide: Spare<DeviceBuffer<f32>>,
}

/// The kernels that make a list for each chunk of the targets, and merge these lists.
#[derive(Debug)]
pub(crate) struct ListKernels {
    partial: EachType,
    merge: Kernel,
}

impl ListKernels {
    fn of(module: &Module, some: &str) -> Result<Self> {
        Ok(Self {
            partial: each_type(module, &format!("cosine_top_k_partial{some}"))?,
            merge: module.kernel(&format!("cosine_top_k_merge{some}"))?,
        })
    }

    /// The kernels for queries that only the device knows.
    pub(crate) fn load_some(device: &Device) -> Result<Self> {
        let ptx = include_str!("../../ptx/cosine_top_k_some.ptx");
        crate::load::load(device, ptx, |module| Self::of(module, "_some"))
    }
}

/// The rows of a search, and the memory for their lists.
pub(crate) struct Buffers<Q, T, S, I> {
    pub queries: Q,
    pub targets: T,
    pub scores: S,
    pub indices: I,
}

/// Inverse norms of the queries and of the targets.
pub(crate) struct Norms<N> {
    pub queries: N,
    pub targets: N,
}

/// A list for each query and chunk of targets.
struct Parts<'a> {
    chunks: usize,
    scores: Held<'a, f32>,
    indices: Held<'a, u32>,
}

impl CosineTopK {
    /// Loads the kernels.
    ///
    /// # Errors
    /// The device refuses the module.
    pub fn load(device: &Device) -> Result<Self> {
        let ptx = include_str!("../../ptx/cosine_top_k.ptx");
        crate::load::load(device, ptx, |module: &Module| {
            Ok(Self {
                device: device.clone(),
                norms: each_type(module, "row_inverse_norms")?,
                scale: each_type(module, "scale")?,
                lists: ListKernels::of(module, "")?,
                query_norms: Workspace::new(device),
                target_norms: Workspace::new(device),
                part_scores: Workspace::new(device),
                part_indices: Workspace::new(device),
                ones: Spare::new(),
                few: OnceLock::new(),
                few_80: OnceLock::new(),
                wide: Spare::new(),
            })
        })
    }

    /// Enqueues the search for the `k` targets with the highest cosine for each query.
    ///
    /// The shapes are `queries [Q, D]`, `targets [N, D]`, `scores [Q, k]` and `indices [Q, k]`, row-major, with Q, N, D and k
    /// from `shape`. `indices` are rows of `targets`. The highest cosine comes first; for equal cosines the lower index comes
    /// first. Vectors need not be normalised. A row of zeros has cosine 0 with every row. A NaN is never in a list; the last
    /// places of the list then hold −∞ and `u32::MAX`.
    ///
    /// The score matrix is never written. The launcher needs device memory for the norms, and for a list for each query and
    /// chunk of targets. It keeps this memory for the next launch. In a capture, load the kernels in its closure: the memory then belongs to the
    /// graph.
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
        queries: impl ReadArg<f32>,
        targets: impl ReadArg<T>,
        scores: impl WriteArg<f32>,
        indices: impl WriteArg<u32>,
    ) -> Result<()> {
        let of = |parameter| move |error: cuda_um::Error| error.of_argument(NAME, parameter);
        let queries = queries.into_view().map_err(of("queries"))?;
        let targets = targets.into_view().map_err(of("targets"))?;
        let scores = scores.into_view_mut().map_err(of("scores"))?;
        let indices = indices.into_view_mut().map_err(of("indices"))?;
        let form = (shape.dim, Metric::Cosine);
        self.with_wide(stream, form, queries, |queries| {
            let buffers = Buffers {
                queries,
                targets,
                scores,
                indices,
            };
            self.launch_as(stream, shape, Metric::Cosine, buffers)
        })
    }

    /// Like `launch`, for either metric, with queries of `with_wide`.
    pub(crate) fn launch_as<T: TargetScalar>(
        &self,
        stream: &Stream,
        shape: TopKShape,
        metric: Metric,
        buffers: Buffers<View<'_, f32>, View<'_, T>, ViewMut<'_, f32>, ViewMut<'_, u32>>,
    ) -> Result<()> {
        let lengths = [
            buffers.queries.len(),
            buffers.targets.len(),
            buffers.scores.len(),
            buffers.indices.len(),
        ];
        shape.check(NAME, lengths)?;
        let TopKShape {
            queries,
            targets,
            dim,
            ..
        } = shape;
        if queries == 0 {
            return Ok(());
        }
        if is_few(shape) {
            return self.launch_few(stream, shape, metric, buffers);
        }
        let index = type_index::<T>();
        match metric {
            Metric::Cosine => {
                let (query_room, target_room) = (&self.query_norms, &self.target_norms);
                let queries =
                    self.inverse_norms(stream, 0, buffers.queries, (queries, dim), query_room)?;
                let targets = self.inverse_norms(
                    stream,
                    index,
                    buffers.targets,
                    (targets, dim),
                    target_room,
                )?;
                let norms = Norms {
                    queries: &*queries,
                    targets: &*targets,
                };
                self.lists(stream, shape, index, buffers, norms)
            }
            Metric::InnerProduct => {
                let ones = self.ones(stream, queries.max(targets))?;
                let norms = Norms {
                    queries: &*ones,
                    targets: &*ones,
                };
                self.lists(stream, shape, index, buffers, norms)
            }
        }
    }

    /// Enqueues the inverse norms of `rows [count, dim]`.
    #[allow(unsafe_code, reason = "launches kernels of this crate")]
    fn inverse_norms<'a>(
        &self,
        stream: &Stream,
        index: usize,
        rows: impl KernelArg,
        (count, dim): (usize, usize),
        room: &'a Workspace<f32>,
    ) -> Result<Held<'a, f32>> {
        let mut norms = room.hold(count)?;
        let sizes = (constant(count as u64), constant(dim as u64));
        let arguments = (rows, &mut *norms, sizes.0, sizes.1);
        // SAFETY: the arguments are those of the kernels in cuda/cosine_top_k.cu. They read the rows of the shape and write a
        // norm for each. The length of `rows` was checked, and `norms` has room for `count`.
        unsafe { self.norms[index].launch(stream, warps(count), arguments)? };
        Ok(norms)
    }

    /// At least `count` ones.
    fn ones(&self, stream: &Stream, count: usize) -> Result<Arc<DeviceBuffer<f32>>> {
        let ones = match self.ones.take().filter(|ones| ones.len() >= count) {
            Some(ones) => ones,
            None => {
                let mut ones = DeviceBuffer::zeroed(&self.device, count)?;
                ones.fill_on(constant(1.0), stream)?;
                Arc::new(ones)
            }
        };
        // Launches at the same time only read them.
        self.ones.put(Arc::clone(&ones));
        Ok(ones)
    }

    /// Computes the lists from the norms. The lengths of the buffers were checked.
    #[allow(unsafe_code, reason = "launches kernels of this crate")]
    fn lists(
        &self,
        stream: &Stream,
        shape: TopKShape,
        index: usize,
        buffers: Buffers<impl KernelArg, impl KernelArg, impl KernelArg, impl KernelArg>,
        norms: Norms<impl KernelArg>,
    ) -> Result<()> {
        let rows = (buffers.queries, buffers.targets);
        // SAFETY: the arguments are those of the kernels in cuda/cosine_top_k.cu, which stay inside the rows of the shape. The
        // length of every buffer was checked, or the buffer was allocated for this shape.
        unsafe {
            let partial = &self.lists.partial[index];
            let queries = constant(shape.queries as u64);
            let parts = self.parts(stream, shape, partial, rows, norms, queries)?;
            self.merge(stream, shape, &parts, (buffers.scores, buffers.indices))
        }
    }

    /// Room for the lists of so many chunks.
    fn room(&self, shape: TopKShape, chunks: usize) -> Result<Parts<'_>> {
        let lists = shape.queries.saturating_mul(chunks).saturating_mul(shape.k);
        Ok(Parts {
            chunks,
            scores: self.part_scores.hold(lists)?,
            indices: self.part_indices.hold(lists)?,
        })
    }

    /// Merges the lists of each query.
    ///
    /// # Safety
    /// The lists were computed for this shape, and the results have room for its lists.
    #[allow(unsafe_code, reason = "launches kernels of this crate")]
    unsafe fn merge(
        &self,
        stream: &Stream,
        shape: TopKShape,
        parts: &Parts<'_>,
        (scores, indices): (impl KernelArg, impl KernelArg),
    ) -> Result<()> {
        let chunks = constant(parts.chunks as u64);
        let k = constant(shape.k as u32);
        let arguments = (&*parts.scores, &*parts.indices, scores, indices, chunks, k);
        let config = shape.merge_config(parts.chunks);
        // SAFETY: the caller's promise; the arguments are those of the kernel in cuda/cosine_top_k.cu.
        unsafe { self.lists.merge.launch(stream, config, arguments)? };
        Ok(())
    }

    /// Computes the lists of the queries that only the device knows, at most `shape.queries`. `some` has their number, then the
    /// rows of their results.
    #[allow(unsafe_code, reason = "launches kernels of this crate")]
    pub(crate) fn launch_some<T: TargetScalar>(
        &self,
        stream: &Stream,
        shape: TopKShape,
        (kernels, some): (&ListKernels, &DeviceBuffer<MaybeUninit<u32>>),
        buffers: Buffers<impl KernelArg, View<'_, T>, ViewMut<'_, f32>, ViewMut<'_, u32>>,
        norms: Norms<impl KernelArg>,
    ) -> Result<()> {
        let rows = (buffers.queries, buffers.targets);
        let partial = &kernels.partial[type_index::<T>()];
        // SAFETY: as in `lists`, for no more queries than the shape has: each query goes to the fallback at most once, and its
        // rows are rows of the shape's results.
        unsafe {
            let parts = self.parts(stream, shape, partial, rows, norms, some)?;
            kernels.merge.launch(
                stream,
                shape.merge_config(parts.chunks),
                (
                    &*parts.scores,
                    &*parts.indices,
                    buffers.scores,
                    buffers.indices,
                    some,
                    constant(parts.chunks as u64),
                    constant(shape.k as u32),
                ),
            )?;
        }
        Ok(())
    }

    /// Computes the list of each query and chunk of targets. `number` is the number of queries, or the device memory that holds it.
    ///
    /// # Safety
    /// `kernel` takes these arguments, and they have the rows of `shape`.
    #[allow(unsafe_code, reason = "launches kernels of this crate")]
    unsafe fn parts(
        &self,
        stream: &Stream,
        shape: TopKShape,
        kernel: &Kernel,
        (queries, targets): (impl KernelArg, impl KernelArg),
        norms: Norms<impl KernelArg>,
        number: impl KernelArg,
    ) -> Result<Parts<'_>> {
        let multiprocessors = self.device.capabilities().multiprocessors as usize;
        let (chunk, chunks) = shape.chunks(multiprocessors);
        let mut parts = self.room(shape, chunks)?;
        let arguments = (
            queries,
            targets,
            norms.queries,
            norms.targets,
            &mut *parts.scores,
            &mut *parts.indices,
            number,
            constant(shape.targets as u64),
            constant(shape.dim as u64),
            constant(chunk as u64),
            constant(shape.k as u32),
        );
        // SAFETY: the caller's promise; the lists have room for all queries and chunks.
        unsafe { kernel.launch(stream, shape.partial_config(chunks), arguments)? };
        Ok(parts)
    }
}
