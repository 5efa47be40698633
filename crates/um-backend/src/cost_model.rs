//! The choice of a device's cost model.

use cuda_um::Device;
use cuda_um::cost::CostModel;

use crate::error::Result;

/// The source of a device's cost model, by which automatic prefetches and reports estimate times. All backends on one device of a runtime
/// share its model.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub enum CostModelSource {
    /// The model that the device has: at first, the file that `CUDA_UM_COST_MODEL` names, otherwise the built-in values for such a device.
    #[default]
    BuiltIn,
    /// The model of this machine: [`CostModel::of_this_machine`](um_kernels::calibrate::OfThisMachine::of_this_machine). The first call on a
    /// machine measures for less than a second.
    #[cfg(feature = "calibrate")]
    ThisMachine,
    /// This model.
    Given(Box<CostModel>),
}

impl CostModelSource {
    pub(crate) fn set(self, device: &Device) -> Result<()> {
        let model = match self {
            Self::BuiltIn => return Ok(()),
            #[cfg(feature = "calibrate")]
            Self::ThisMachine => um_kernels::calibrate::OfThisMachine::of_this_machine(device)?,
            Self::Given(model) => *model,
        };
        device.set_cost_model(model)
    }
}

impl From<CostModel> for CostModelSource {
    fn from(model: CostModel) -> Self {
        Self::Given(Box::new(model))
    }
}
