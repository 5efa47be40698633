//! Queries in 16 bits, in single precision.

use super::{CosineTopK, TargetScalar, type_index};
use crate::error::Result;
use crate::grid::strided;
use cuda_um::{DeviceBuffer, Stream, View};

impl CosineTopK {
    /// Calls `then` with the queries in single precision. The conversion is exact, and enqueued if the queries need one.
    #[allow(unsafe_code, reason = "launches kernels of this crate")]
    pub(crate) fn with_wide<Q: TargetScalar, R>(
        &self,
        stream: &Stream,
        queries: View<'_, Q>,
        then: impl FnOnce(View<'_, f32>) -> Result<R>,
    ) -> Result<R> {
        let Some(narrow) = type_index::<Q>().checked_sub(1) else {
            return then(queries.cast()?);
        };
        let mut wide = match self.wide.take().filter(|kept| kept.len() >= queries.len()) {
            Some(kept) => kept,
            None => DeviceBuffer::zeroed(&self.device, queries.len())?,
        };
        let arguments = (queries, &mut wide, queries.len() as u64);
        let config = strided(&self.device, queries.len());
        // SAFETY: the arguments are those of the kernels in cuda/cosine_top_k.cu; `wide` has room for all elements.
        unsafe { self.widen[narrow].launch(stream, config, arguments)? };
        let outcome = then(wide.view(..queries.len())?);
        self.wide.put(wide);
        outcome
    }
}
