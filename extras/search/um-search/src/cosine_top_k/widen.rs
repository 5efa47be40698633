//! Queries in 16 bits, in single precision.

use super::{CosineTopK, TargetScalar, type_index};
use crate::error::Result;
use cuda_um::{Device, DeviceBuffer, LaunchConfig, Stream, View};

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

/// Blocks for `count` elements with one thread each, but not more than fill the device: the kernels stride over the remaining
/// elements.
fn strided(device: &Device, count: usize) -> LaunchConfig {
    /// Threads of a block; cuda/cosine_top_k.cuh uses the same number.
    const THREADS: usize = 256;
    let most = device.capabilities().multiprocessors as usize * 32;
    let blocks = count.div_ceil(THREADS).clamp(1, most.max(1));
    LaunchConfig {
        grid: [blocks as u32, 1, 1],
        block: [THREADS as u32, 1, 1],
        shared_bytes: 0,
    }
}
