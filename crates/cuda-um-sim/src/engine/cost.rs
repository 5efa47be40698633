//! What things cost on the simulated machine: the prices of the virtual clock are a model of `cuda-um-cost`.

use std::time::Duration;

pub use cuda_um_cost::CostModel;

/// Time that `bytes` take at a rate.
pub(crate) fn at_rate(bytes: u64, rate: f64) -> Duration {
    CostModel::at_rate(bytes, rate)
}
