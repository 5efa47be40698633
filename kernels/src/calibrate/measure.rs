//! The measurement of the values that decide placements.
//!
//! Every value comes from times of complete pieces of work: a fixed part from 4 KiB, a rate from the difference of two sizes. The formulas
//! are those of the simulator's clock, so a model that is measured on the simulator is equal to the simulator's model.

use super::clock::Clock;
use super::error::{CalibrateError, Result};
use super::machine;
use super::{copies, host, kernels, session};
use cuda_um::Device;
use cuda_um::cost::CostModel;
use session::Session;

type Step = fn(&mut Session) -> session::Outcome<()>;

/// The order matters: later steps subtract values of earlier ones.
const STEPS: &[(&str, Step)] = &[
    ("the host's threads", host::threads),
    ("calls", kernels::calls),
    ("kernels", kernels::kernels),
    ("mapped memory", kernels::mapped),
    ("copies of pinned memory", copies::pinned),
    ("copies to managed memory", copies::managed),
    ("staged copies", copies::staged),
];

/// Measures the values that decide placements: the times of copies and kernels, and the rates of the link and of the host's copies. The
/// other values are those of [`CostModel::of_gpu`]. The model's source names the machine, the measured values, and the built-in model that has the
/// others.
///
/// A value that makes no sense (a negative time), or that this device cannot show, stays built-in, and the reason is logged. So do the values of
/// the host's own work on a virtual clock, which does not count it.
pub fn measure(device: &Device, clock: &Clock) -> Result<CostModel> {
    let begun = machine::source(device)?;
    let mut session = Session::new(device, clock)?;
    for &(name, step) in STEPS {
        // The pinned memory of an earlier step and of its copies.
        session.device.trim();
        step(&mut session).map_err(|source| CalibrateError::Step { step: name, source })?;
    }
    let keys: Vec<_> = session.measured.into_iter().collect();
    let (keys, others, mut model) = (keys.join(", "), session.model.source.clone(), session.model);
    model.source = format!("{begun}{}: {keys}; others {others}", clock.how());
    tracing::debug!(model.source, "calibrated");
    Ok(model)
}
