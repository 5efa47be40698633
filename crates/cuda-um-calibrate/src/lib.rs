#![doc = include_str!("../README.md")]

mod cache;
mod clock;
mod error;
mod machine;
mod measure;
mod plan;

pub use cache::Cache;
pub use clock::Clock;
pub use error::{CalibrateError, Result};
pub use measure::{Calibration, NOT_ON_A_VIRTUAL_CLOCK, measure};
pub use plan::Plan;
// For the complete calibration of `um-benches`, which measures the other values.
#[doc(hidden)]
pub use measure::session::{SMALL, Session, Wrong, fresh, slope, verify};

use cuda_um::Device;
use cuda_um::cost::CostModel;

/// The environment variable that names the file of a model. `cuda-um` reads it as well, when a device is opened.
const COST_MODEL: &str = "CUDA_UM_COST_MODEL";

/// The constructor [`CostModel::of_this_machine`](Self::of_this_machine).
pub trait OfThisMachine: Sized {
    /// The cost model of this device on this machine: the file that `CUDA_UM_COST_MODEL` names; otherwise the file in the user's cache
    /// folder; otherwise measured, which takes less than a second, and kept there.
    ///
    /// The model is not set for the device: see [`Device::set_cost_model`]. If the cache folder cannot be used, the model is measured and
    /// not kept, and a warning gives the reason.
    ///
    /// # Ordering
    ///
    /// A measurement runs on a stream of its own and on that of the library, which do not wait for other streams. Work that the device does at the same time makes
    /// the result worse.
    ///
    /// # Errors
    ///
    /// [`CalibrateError::Variable`] if `CUDA_UM_COST_MODEL` names a file that is not a cost model; [`CalibrateError::Device`];
    /// [`CalibrateError::Step`].
    fn of_this_machine(device: &Device) -> Result<Self>;
}

impl OfThisMachine for CostModel {
    fn of_this_machine(device: &Device) -> Result<Self> {
        if let Some(path) = std::env::var_os(COST_MODEL) {
            return Self::from_file(&path).map_err(|source| CalibrateError::Variable {
                variable: COST_MODEL,
                path: path.into(),
                source,
            });
        }
        let clock = Clock::wall();
        match Cache::of_user() {
            Ok(cache) => cache.load_or_measure(device, &clock),
            Err(error) => {
                tracing::warn!("the cost model is not kept: {error}");
                Ok(measure(device, Plan::MACHINE, &clock, &mut |_| {})?.model)
            }
        }
    }
}
