//! Queries in single precision, scaled for the cosine.

use super::{CosineTopK, TargetScalar, type_index, warps};
use crate::error::Result;
use crate::metric::Metric;
use cuda_um::{DeviceBuffer, Stream, View, constant};

impl CosineTopK {
    /// Calls `then` with the queries in single precision, for the cosine times powers of two that bring the largest element of each row near 1. Their
    /// scores stay the same. Enqueues this if the queries need it.
    #[allow(unsafe_code, reason = "launches kernels of this crate")]
    pub(crate) fn with_wide<Q: TargetScalar, R>(
        &self,
        stream: &Stream,
        (dim, metric): (usize, Metric),
        queries: View<'_, Q>,
        then: impl FnOnce(View<'_, f32>) -> Result<R>,
    ) -> Result<R> {
        let (index, is_cosine) = (type_index::<Q>(), metric == Metric::Cosine);
        // Other lengths are refused later.
        let rows = queries.len().checked_div(dim).unwrap_or_default();
        if index == 0 && (rows == 0 || !is_cosine) {
            return then(queries.cast()?);
        }
        let mut wide = match self.wide.take().filter(|kept| kept.len() >= queries.len()) {
            Some(kept) => kept,
            None => DeviceBuffer::zeroed(&self.device, queries.len())?,
        };
        let shape = (constant(rows as u64), constant(dim as u64));
        let is_cosine = constant(u32::from(is_cosine));
        let arguments = (queries, &mut wide, shape.0, shape.1, is_cosine);
        if rows > 0 {
            // SAFETY: the arguments are those of the kernels in cuda/cosine_top_k.cu; `wide` has room for all elements.
            unsafe { self.scale[index].launch(stream, warps(rows), arguments)? };
        }
        let outcome = then(wide.view(..queries.len())?);
        self.wide.put(wide);
        outcome
    }
}
