//! Searches.

use super::batch::Batch;
use super::buffers::SearchBuffers;
use super::choose::SearchPath;
use super::filter::Filter;
use super::modules::Modules;
use super::plan::Plan;
use super::prepared::PreparedTargets;
use super::room::HeldRoom;
use super::sums::HeldSums;
use super::{ExactTopK, Format, NAME, unsupported};
use crate::cosine_top_k::{Buffers, TargetScalar, TopKShape};
use crate::error::{Result, SearchError, length};
use crate::metric::Metric;
use cuda_um::{Stream, View};

impl ExactTopK {
    /// Enqueues the search for the `k` targets with the highest score for each query. The shapes are those of
    /// [`SearchBuffers`], with `shape` giving the sizes. If a filter is used, the targets are first converted for it. To search
    /// the same targets again, keep [`PreparedTargets`]. Queries in 16 bits are widened, which is exact.
    ///
    /// In a capture nothing is filtered: [`Filter::Auto`] searches as [`Filter::Off`] does, and the other filters are an error. Load the
    /// `ExactTopK` in the closure of the capture: its memory then belongs to the graph.
    ///
    /// # Ordering
    /// Stream-ordered: enqueued when this returns, after all earlier uses of the buffers on any stream. With [`Filter::Auto`] and
    /// very many targets, where it begins in 8 bits, this waits for the filter of each 1024 queries: the number of queries with too
    /// many candidates decides what follows.
    ///
    /// # Errors
    /// The length of a buffer does not fit the shape, `k` is 0, more than the number of targets or more than 1024, the device
    /// does not have the requested filter, device memory is missing, or a launch fails.
    pub fn launch<T: TargetScalar, Q: TargetScalar>(
        &self,
        stream: &Stream,
        shape: TopKShape,
        metric: Metric,
        filter: Filter,
        buffers: SearchBuffers<'_, T, Q>,
    ) -> Result<SearchPath> {
        buffers.check(shape)?;
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
        let modules = match self.modules() {
            Err(SearchError::Unsupported { reason, .. }) if filter == Filter::Auto => {
                return self.unfiltered(stream, shape, metric, reason, buffers);
            }
            modules => modules?,
        };
        let mut fresh = self.fresh.take();
        let form = (shape, metric, format);
        let launched = self.launch_fresh(stream, modules, form, filter, &mut fresh, buffers);
        if let Some(fresh) = fresh {
            self.fresh.put(fresh);
        }
        Ok(launched?.unwrap_or_else(|| path(kernels, format, reason)))
    }

    /// Converts the targets, and searches them. Returns the path if it is not the one of the format.
    fn launch_fresh<T: TargetScalar, Q: TargetScalar>(
        &self,
        stream: &Stream,
        modules: &Modules,
        (shape, metric, format): (TopKShape, Metric, Format),
        filter: Filter,
        fresh: &mut Option<PreparedTargets>,
        buffers: SearchBuffers<'_, T, Q>,
    ) -> Result<Option<SearchPath>> {
        let (form, rows) = ((shape, metric, format), buffers.targets);
        let targets = match self.convert_fresh(stream, modules, form, rows, fresh) {
            Err(error) if filter == Filter::Auto && error.is_out_of_memory() => {
                let reason = format!("no memory for the filter's copy of the targets: {error}");
                let path = self.unfiltered(stream, shape, metric, reason, buffers)?;
                return Ok(Some(path));
            }
            converted => converted?,
        };
        if (filter, format) == (Filter::Auto, Format::Int8) {
            let form = (shape, metric);
            let path = self.begin_in_8_bits(stream, modules, form, fresh, buffers)?;
            return Ok(Some(path));
        }
        self.filtered(stream, modules, shape, targets, buffers)?;
        Ok(None)
    }

    /// Enqueues the conversion of the targets of a launch into memory that is kept.
    pub(super) fn convert_fresh<'f, T: TargetScalar>(
        &self,
        stream: &Stream,
        modules: &Modules,
        (shape, metric, format): (TopKShape, Metric, Format),
        rows: View<'_, T>,
        fresh: &'f mut Option<PreparedTargets>,
    ) -> Result<&'f PreparedTargets> {
        let TopKShape { targets, dim, .. } = shape;
        // A copy that is too small is freed first: there may be no memory for both.
        let kept = fresh
            .take()
            .filter(|kept| kept.fits(targets, dim, metric, format));
        let converted = match kept {
            Some(kept) => fresh.insert(kept),
            None => {
                let room = PreparedTargets::room(&self.device, targets, dim, metric, format)?;
                fresh.insert(room)
            }
        };
        converted.convert(modules, stream, 0, rows)?;
        Ok(converted)
    }

    /// The same with prepared targets. `targets` must still be their exact rows, in any memory that a kernel can read.
    ///
    /// # Ordering
    /// As [`launch`](Self::launch).
    ///
    /// # Errors
    /// As [`launch`](Self::launch), or the shape differs from that of the prepared targets.
    pub fn launch_prepared<T: TargetScalar, Q: TargetScalar>(
        &self,
        stream: &Stream,
        shape: TopKShape,
        prepared: &PreparedTargets,
        buffers: SearchBuffers<'_, T, Q>,
    ) -> Result<SearchPath> {
        buffers.check(shape)?;
        length(NAME, "prepared targets", shape.targets, prepared.rows)?;
        length(NAME, "a prepared target", shape.dim, prepared.dim)?;
        let (kernels, format, _) = self
            .choose(prepared.format.filter(), prepared.metric, shape)
            .map_err(unsupported)?;
        if shape.queries > 0 {
            self.filtered(stream, self.modules()?, shape, prepared, buffers)?;
        }
        Ok(path(kernels, format, "prepared targets"))
    }

    pub(super) fn unfiltered<T: TargetScalar, Q: TargetScalar>(
        &self,
        stream: &Stream,
        shape: TopKShape,
        metric: Metric,
        reason: String,
        buffers: SearchBuffers<'_, T, Q>,
    ) -> Result<SearchPath> {
        let form = (shape.dim, metric);
        self.basic
            .with_wide(stream, form, buffers.queries, |queries| {
                let buffers = Buffers {
                    queries,
                    targets: buffers.targets,
                    scores: buffers.scores,
                    indices: buffers.indices,
                };
                self.basic.launch_as(stream, shape, metric, buffers)
            })?;
        Ok(SearchPath {
            filter: None,
            reason,
        })
    }

    pub(super) fn filtered<T: TargetScalar, Q: TargetScalar>(
        &self,
        stream: &Stream,
        modules: &Modules,
        shape: TopKShape,
        prepared: &PreparedTargets,
        mut buffers: SearchBuffers<'_, T, Q>,
    ) -> Result<()> {
        let plan = Plan::new(shape, prepared.format);
        let mut room = self.room.hold(shape, plan, prepared.format)?;
        let mut sums = self.sums.hold()?;
        for first in (0..shape.queries).step_by(plan.batch) {
            let queries = plan.batch.min(shape.queries - first);
            let shape = TopKShape { queries, ..shape };
            let part = buffers.batch(first, shape)?;
            let batch = (prepared, plan, shape);
            let room = (&mut room, &mut sums);
            self.filter_batch(stream, modules, batch, part, room, |_| Ok(true))?;
        }
        Ok(())
    }

    /// Enqueues the search for one batch of queries. `falls_back` says if queries with too many candidates are to be searched
    /// without the filter; it gets the sums over all batches.
    pub(super) fn filter_batch<T: TargetScalar, Q: TargetScalar>(
        &self,
        stream: &Stream,
        modules: &Modules,
        (prepared, plan, shape): (&PreparedTargets, Plan, TopKShape),
        part: SearchBuffers<'_, T, Q>,
        (room, sums): (&mut HeldRoom<'_>, &mut HeldSums<'_>),
        falls_back: impl FnOnce(&mut HeldSums<'_>) -> Result<bool>,
    ) -> Result<()> {
        let form = (shape.dim, prepared.metric);
        self.basic.with_wide(stream, form, part.queries, |queries| {
            let mut batch = Batch {
                stream,
                modules,
                prepared,
                plan,
                shape,
                multiprocessors: self.device.capabilities().multiprocessors,
                buffers: SearchBuffers {
                    queries,
                    targets: part.targets,
                    scores: part.scores,
                    indices: part.indices,
                },
            };
            batch.convert_queries(room)?;
            batch.sample(room)?;
            batch.filter(room, sums.memory())?;
            batch.rescore(room, sums.memory())?;
            match falls_back(sums)? {
                true => batch.fall_back(&self.basic, room),
                false => Ok(()),
            }
        })
    }
}

pub(super) fn path(kernels: super::FilterKernels, format: Format, reason: &str) -> SearchPath {
    SearchPath {
        filter: Some((kernels, format)),
        reason: reason.to_owned(),
    }
}
