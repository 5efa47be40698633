//! Searches.

use super::bound::{Bound, TILE_K};
use super::filter::{Filter, MOST_SPECIAL};
use super::modules::{Modules, rescore_bytes};
use super::plan::{Path, Plan};
use super::prepared::{PreparedTargets, padded_queries};
use super::tiles::{BLOCK, TILE, room};
use super::{ExactTopK, Format, NAME, unsupported};
use crate::cosine_top_k::{Fallback, TargetScalar, TopKShape, half_precision, warps};
use crate::error::{KernelError, Result, length};
use crate::metric::Metric;
use cuda_um::{Arguments, LaunchConfig, Stream, View, ViewMut};

/// Groups of targets in a block; the sample keeps the best of each group.
const GROUPS: usize = 16;

/// The buffers of a launch.
#[derive(Debug)]
pub struct SearchBuffers<'a, T> {
    /// `[queries, dim]`, row-major.
    pub queries: View<'a, f32>,
    /// `[targets, dim]`, row-major.
    pub targets: View<'a, T>,
    /// `[queries, k]`, row-major: the highest first, for equal scores the lower index first; places without a target have −∞.
    pub scores: ViewMut<'a, f32>,
    /// `[queries, k]`, row-major: rows of `targets`; places without a target have `u32::MAX`.
    pub indices: ViewMut<'a, u32>,
}

impl ExactTopK {
    /// Enqueues the search for the `k` targets with the highest score for each query. The shapes are those of
    /// [`SearchBuffers`], with `shape` giving the sizes. If a filter is used, the targets are first converted for it. To search
    /// the same targets again, keep [`PreparedTargets`].
    ///
    /// # Ordering
    /// Stream-ordered: enqueued when this returns, after all earlier uses of the buffers on any stream.
    ///
    /// # Errors
    /// The length of a buffer does not fit the shape, `k` is 0, more than the number of targets or more than 1024, the device
    /// does not have the requested filter, device memory is missing, or a launch fails.
    pub fn launch<T: TargetScalar>(
        &self,
        stream: &Stream,
        shape: TopKShape,
        metric: Metric,
        filter: Filter,
        buffers: SearchBuffers<'_, T>,
    ) -> Result<Path> {
        check(shape, &buffers)?;
        let (kernels, format, reason) = match self.choose(filter, metric, shape) {
            Ok(chosen) => chosen,
            Err(reason) if matches!(filter, Filter::Auto | Filter::Off) => {
                return self.unfiltered(stream, shape, metric, reason, buffers);
            }
            Err(reason) => return Err(unsupported(reason)),
        };
        if shape.queries == 0 {
            return Ok(path(kernels, format, reason));
        }
        let mut fresh = self.fresh.lock();
        let (rows, dim) = (shape.targets, shape.dim);
        // A copy that is too small is freed first: there may be no memory for both.
        let kept = fresh
            .take()
            .filter(|targets| targets.fits(rows, dim, metric, format));
        let targets = match kept {
            Some(targets) => fresh.insert(targets),
            None => match PreparedTargets::room(&self.device, rows, dim, metric, format) {
                Ok(targets) => fresh.insert(targets),
                Err(KernelError::Cuda(error)) if filter == Filter::Auto => {
                    let reason = format!("no memory for the filter's copy of the targets: {error}");
                    return self.unfiltered(stream, shape, metric, reason, buffers);
                }
                Err(error) => return Err(error),
            },
        };
        let modules = self.modules()?;
        targets.convert(&modules, stream, 0, buffers.targets)?;
        self.filtered(stream, &modules, shape, targets, buffers)?;
        Ok(path(kernels, format, reason))
    }

    /// The same with prepared targets. `targets` must still be their exact rows, in any memory that a kernel can read.
    ///
    /// # Ordering
    /// As [`launch`](Self::launch).
    ///
    /// # Errors
    /// As [`launch`](Self::launch), or the shape differs from that of the prepared targets.
    pub fn launch_prepared<T: TargetScalar>(
        &self,
        stream: &Stream,
        shape: TopKShape,
        prepared: &PreparedTargets,
        buffers: SearchBuffers<'_, T>,
    ) -> Result<Path> {
        check(shape, &buffers)?;
        length(NAME, "prepared targets", shape.targets, prepared.rows)?;
        length(NAME, "a prepared target", shape.dim, prepared.dim)?;
        let (kernels, format, _) = self
            .choose(prepared.format.filter(), prepared.metric, shape)
            .map_err(unsupported)?;
        if shape.queries > 0 {
            self.filtered(stream, &*self.modules()?, shape, prepared, buffers)?;
        }
        Ok(path(kernels, format, "prepared targets"))
    }

    fn unfiltered<T: TargetScalar>(
        &self,
        stream: &Stream,
        shape: TopKShape,
        metric: Metric,
        reason: String,
        buffers: SearchBuffers<'_, T>,
    ) -> Result<Path> {
        let SearchBuffers {
            queries,
            targets,
            scores,
            indices,
        } = buffers;
        self.basic
            .launch_as(stream, shape, metric, queries, targets, scores, indices)?;
        Ok(Path {
            filter: None,
            reason,
        })
    }

    #[allow(unsafe_code, reason = "launches kernels of this crate")]
    fn filtered<T: TargetScalar>(
        &self,
        stream: &Stream,
        modules: &Modules,
        shape: TopKShape,
        prepared: &PreparedTargets,
        buffers: SearchBuffers<'_, T>,
    ) -> Result<()> {
        let TopKShape { dim, k, .. } = shape;
        let plan = Plan::new(shape);
        let most = plan.batch.min(shape.queries);
        let half = half_precision::<T>();
        let format = prepared.format as usize;
        let bound = Bound::new(dim, prepared.metric);
        let (blocks, tiles) = (dim.div_ceil(TILE_K) as u32, shape.targets.div_ceil(BLOCK));
        let limits = plan.capacity as u64
            | (plan.survivors as u64) << 20
            | (MOST_SPECIAL as u64) << 36
            | (k as u64) << 48;
        let room_ = &self.room;
        let mut norms = room_.query_norms.hold(most)?;
        let mut query_tiles = room_.query_tiles.hold(room(most, dim))?;
        let mut bounds = room_.query_bounds.hold(padded_queries(most))?;
        let mut specials = room_.query_specials.hold(1)?;
        let mut best = room_.best.hold(most * plan.sampled * GROUPS)?;
        let mut thresholds = room_.thresholds.hold(most)?;
        let mut counts = room_.counts.hold(most)?;
        let mut kept = room_.kept.hold(most * plan.capacity)?;
        let mut given_up = room_.given_up.hold(1 + most)?;
        let mut gathered = room_.gathered.hold(most * dim)?;
        let mut gathered_norms = room_.gathered_norms.hold(most)?;
        let mut sums = self.sums.lock();
        let multiprocessors = self.device.capabilities().multiprocessors as usize;
        let SearchBuffers {
            queries,
            targets,
            mut scores,
            mut indices,
        } = buffers;
        let block = |grid: usize, threads: u32, shared_bytes: u32| LaunchConfig {
            grid: [grid as u32, 1, 1],
            block: [threads, 1, 1],
            shared_bytes,
        };
        for first in (0..shape.queries).step_by(plan.batch) {
            let count = plan.batch.min(shape.queries - first);
            let queries = queries.slice(first * dim..(first + count) * dim)?;
            let results = first * k..(first + count) * k;
            let groups = count.div_ceil(TILE);
            // As many blocks as can run at once; each processes its share.
            let persistent = |tiles: usize| {
                block(
                    multiprocessors.min(groups * tiles),
                    modules.support.threads,
                    modules.support.filter_bytes(),
                )
            };
            // SAFETY: the arguments are those of the kernels in cuda/exact_top_k.cu and cuda/exact_filter*.cu. Every workspace
            // was made for `most` queries, and `count` does not exceed this number; the prepared targets were made for all
            // their rows; the caller's buffers have the lengths of the shape. Sampled and filtered blocks are below `tiles`:
            // those of the sample because of the plan, those of the two filters because of their periods. Candidates are valid
            // targets, because the filter compares with the number of targets.
            unsafe {
                modules.prepare[0][format].launch(
                    stream,
                    warps(padded_queries(count)),
                    (
                        queries,
                        &mut *norms,
                        &mut *query_tiles,
                        &mut *bounds,
                        &mut *specials,
                        0u64,
                        padded_queries(count) as u64,
                        count as u64,
                        dim as u64,
                        bound.grow,
                        u32::from(prepared.metric == Metric::Cosine),
                    ),
                )?;
                modules.sample[format].launch(
                    stream,
                    persistent(plan.sampled),
                    (
                        &*query_tiles,
                        &prepared.tiles,
                        &*bounds,
                        &prepared.bounds,
                        &prepared.tile_bounds,
                        &mut *best,
                        count as u32,
                        plan.sampled as u32,
                        plan.period as i32,
                        blocks,
                        bound.kappa,
                        bound.tiny,
                        modules.support.stages,
                    ),
                )?;
                modules.thresholds.launch(
                    stream,
                    block(count, 256, 0),
                    (
                        &*best,
                        &*bounds,
                        &mut *thresholds,
                        &mut *counts,
                        &mut *given_up,
                        (plan.sampled * GROUPS) as u32,
                        plan.capacity as u32,
                        k as u32,
                    ),
                )?;
                let period = plan.first_of;
                let parts = match period {
                    0 => [(tiles, 0), (0, 0)],
                    _ => {
                        let some = tiles.div_ceil(period);
                        [(some, period as i32), (tiles - some, -(period as i32))]
                    }
                };
                for (part, (tiles, period)) in parts.into_iter().enumerate() {
                    if tiles == 0 {
                        continue;
                    }
                    if part > 0 {
                        modules.tighten.launch(
                            stream,
                            block(count, 256, 0),
                            (
                                &*bounds,
                                &prepared.bounds,
                                &mut *thresholds,
                                &*counts,
                                &*kept,
                                plan.capacity as u32,
                                k as u32,
                                bound.kappa,
                                bound.tiny,
                            ),
                        )?;
                    }
                    modules.filter[format].launch(
                        stream,
                        persistent(tiles),
                        (
                            &*query_tiles,
                            &prepared.tiles,
                            &*bounds,
                            &prepared.tile_bounds,
                            &mut *thresholds,
                            &mut *counts,
                            &mut *kept,
                            plan.capacity as u32,
                            count as u32,
                            shape.targets as u32,
                            tiles as u32,
                            period,
                            blocks,
                            bound.kappa,
                            bound.tiny,
                            modules.support.stages,
                        ),
                    )?;
                }
                let mut arguments = Arguments::new();
                arguments.push(queries);
                arguments.push(targets);
                arguments.push(&*norms);
                arguments.push(&prepared.norms);
                arguments.push(&*bounds);
                arguments.push(&prepared.bounds);
                arguments.push(&*counts);
                arguments.push(&*kept);
                arguments.push(&prepared.specials);
                arguments.push(&mut *given_up);
                arguments.push(&mut *sums);
                arguments.push(scores.slice_mut(results.clone())?);
                arguments.push(indices.slice_mut(results.clone())?);
                arguments.push(dim as u64);
                arguments.push(limits);
                arguments.push(bound.kappa);
                arguments.push(bound.tiny);
                modules.rescore[half].launch(
                    stream,
                    block(count, 256, rescore_bytes(plan.survivors)),
                    arguments,
                )?;
                modules.gather.launch(
                    stream,
                    block(count, 256, 0),
                    (
                        queries,
                        &*norms,
                        &*given_up,
                        &mut *gathered,
                        &mut *gathered_norms,
                        dim as u64,
                    ),
                )?;
            }
            self.basic.launch_some(
                stream,
                TopKShape {
                    queries: count,
                    ..shape
                },
                Fallback {
                    kernels: &modules.some,
                    queries: &gathered,
                    query_norms: &gathered_norms,
                    target_norms: &prepared.norms,
                    some: &given_up,
                },
                targets,
                scores.slice_mut(results.clone())?,
                indices.slice_mut(results)?,
            )?;
        }
        Ok(())
    }
}

fn check<T>(shape: TopKShape, buffers: &SearchBuffers<'_, T>) -> Result<()> {
    shape.check(NAME)?;
    let results = shape.queries.saturating_mul(shape.k);
    for (buffer, expected, found) in [
        (
            "queries",
            shape.queries.saturating_mul(shape.dim),
            buffers.queries.len(),
        ),
        (
            "targets",
            shape.targets.saturating_mul(shape.dim),
            buffers.targets.len(),
        ),
        ("scores", results, buffers.scores.len()),
        ("indices", results, buffers.indices.len()),
    ] {
        length(NAME, buffer, expected, found)?;
    }
    Ok(())
}

fn path(kernels: super::FilterKernels, format: Format, reason: &str) -> Path {
    Path {
        filter: Some((kernels, format)),
        reason: reason.to_owned(),
    }
}
