//! What calls would cost by the cost model. What faults did cost: `Context::fault_price`.

use cuda_um_cost::{CostModel, at_rate};
use std::time::Duration;

/// So many prefetches to a device moved so much.
pub(super) fn to_device(model: &CostModel, calls: u64, bytes: u64) -> Duration {
    times(model.prefetch, calls) + at_rate(bytes, model.prefetch_to_device_rate)
}

/// So many prefetches populated so much there.
pub(super) fn populate(model: &CostModel, calls: u64, bytes: u64) -> Duration {
    times(model.prefetch, calls) + at_rate(bytes, model.device_populate_rate)
}

/// So many prefetches to the host moved so much.
pub(super) fn to_host(model: &CostModel, calls: u64, bytes: u64) -> Duration {
    times(model.prefetch, calls) + at_rate(bytes, model.prefetch_to_host_rate)
}

/// So many prefetches of so much moved nothing.
pub(super) fn resident(model: &CostModel, calls: u64, bytes: u64) -> Duration {
    let blocks = bytes.div_ceil(crate::BLOCK_BYTES);
    times(model.prefetch_resident, calls) + times(model.prefetch_block, blocks)
}

pub(super) fn times(time: Duration, number: u64) -> Duration {
    Duration::from_secs_f64(time.as_secs_f64() * number as f64)
}
