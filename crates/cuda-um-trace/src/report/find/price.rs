//! The price of calls by the cost model. For the price of faults see `Context::fault_price`.

use cuda_um_cost::{CostModel, at_rate};
use std::time::Duration;

/// Price of `calls` prefetches that move `bytes` to a device.
pub(super) fn to_device(model: &CostModel, calls: u64, bytes: u64) -> Duration {
    times(model.prefetch, calls) + at_rate(bytes, model.prefetch_to_device_rate)
}

/// Price of `calls` prefetches that populate `bytes` on a device.
pub(super) fn populate(model: &CostModel, calls: u64, bytes: u64) -> Duration {
    times(model.prefetch, calls) + at_rate(bytes, model.device_populate_rate)
}

/// Price of `calls` prefetches that move `bytes` to the host.
pub(super) fn to_host(model: &CostModel, calls: u64, bytes: u64) -> Duration {
    times(model.prefetch, calls) + at_rate(bytes, model.prefetch_to_host_rate)
}

/// Price of `calls` prefetches of `bytes` that move nothing.
pub(super) fn resident(model: &CostModel, calls: u64, bytes: u64) -> Duration {
    let blocks = bytes.div_ceil(crate::BLOCK_BYTES);
    times(model.prefetch_resident, calls) + times(model.prefetch_block, blocks)
}

pub(super) fn times(time: Duration, number: u64) -> Duration {
    Duration::from_secs_f64(time.as_secs_f64() * number as f64)
}
