//! [`Filter::Auto`](super::Filter::Auto) in 8 bits.

use super::ExactTopK;
use super::buffers::SearchBuffers;
use super::choose::SearchPath;
use super::launch::path;
use super::modules::Modules;
use super::plan::Plan;
use super::prepared::PreparedTargets;
use super::tiles::{Format, TILE};
use crate::cosine_top_k::{TargetScalar, TopKShape};
use crate::error::Result;
use crate::metric::Metric;
use cuda_um::Stream;

/// More queries without the filter take longer than a second filter for all of them.
const FEW: u64 = TILE as u64;

impl ExactTopK {
    /// Searches with targets that were converted to 8 bits. From the first batch on for which they leave too many targets, it
    /// searches with targets in half precision.
    pub(super) fn begin_in_8_bits<T: TargetScalar, Q: TargetScalar>(
        &self,
        stream: &Stream,
        modules: &Modules,
        (shape, metric): (TopKShape, Metric),
        fresh: &mut Option<PreparedTargets>,
        mut buffers: SearchBuffers<'_, T, Q>,
    ) -> Result<SearchPath> {
        let (kernels, rows) = (modules.support.kernels, buffers.targets);
        let targets = fresh.as_ref().expect("converted before this");
        let searched = self.attempt(stream, modules, shape, targets, &mut buffers)?;
        if searched == shape.queries {
            return Ok(path(kernels, Format::Int8, "chosen for the shape"));
        }
        let queries = shape.queries - searched;
        let shape = TopKShape { queries, ..shape };
        let rest = buffers.batch(searched, shape)?;
        let reason = "8 bits left too many targets for some queries";
        match self.convert_fresh(stream, modules, (shape, metric, Format::F16), rows, fresh) {
            Ok(targets) => self.filtered(stream, modules, shape, targets, rest)?,
            Err(error) if error.is_out_of_memory() => {
                let reason = format!("{reason}, and half precision has no memory: {error}");
                return self.unfiltered(stream, shape, metric, reason, rest);
            }
            Err(error) => return Err(error),
        }
        Ok(path(kernels, Format::F16, reason))
    }

    /// Searches batch by batch with targets in 8 bits, and waits for each. It ends at the batch that has too many queries with too
    /// many candidates, and returns the number of queries before it. A few of them are searched without the filter.
    fn attempt<T: TargetScalar, Q: TargetScalar>(
        &self,
        stream: &Stream,
        modules: &Modules,
        shape: TopKShape,
        prepared: &PreparedTargets,
        buffers: &mut SearchBuffers<'_, T, Q>,
    ) -> Result<usize> {
        let plan = Plan::new(shape, prepared.format);
        let mut room = self.room.hold(shape, plan, prepared.format)?;
        let mut sums = self.attempted.hold()?;
        for first in (0..shape.queries).step_by(plan.batch) {
            let queries = plan.batch.min(shape.queries - first);
            let shape = TopKShape { queries, ..shape };
            let part = buffers.batch(first, shape)?;
            let mut given_up = 0;
            let batch = (prepared, plan, shape);
            let room = (&mut room, &mut sums);
            self.filter_batch(stream, modules, batch, part, room, |sums| {
                given_up = sums.read()?;
                Ok((1..=FEW).contains(&given_up))
            })?;
            if given_up > 0 {
                self.attempts.have_failed();
            }
            if given_up > FEW {
                sums.known.again += given_up;
                return Ok(first);
            }
        }
        Ok(shape.queries)
    }
}
