//! What things cost by the cost model.

use cuda_um_cost::{CostModel, at_rate};
use std::time::Duration;

/// A device faulted memory in. Sources without fault records still have a group for each run.
pub(super) fn device_faults(model: &CostModel, groups: u64, faults: u64, bytes: u64) -> Duration {
    times(model.gpu_fault_group, groups)
        + times(model.gpu_fault, faults)
        + at_rate(bytes, model.fault_rate)
}

/// The host faulted memory back.
pub(super) fn host_faults(model: &CostModel, faults: u64, bytes: u64) -> Duration {
    times(model.cpu_fault, faults) + at_rate(bytes, model.fault_rate)
}

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
