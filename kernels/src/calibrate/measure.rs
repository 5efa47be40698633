//! The measurement of the values that decide placements.
//!
//! Every value comes from times of complete pieces of work: a fixed part from 4 KiB, a rate from the difference of two sizes. The formulas
//! are those of the simulator's clock, so a model that is measured on the simulator is equal to the simulator's model.

use super::clock::Clock;
use super::error::{CalibrateError, Result};
use super::machine;
use super::plan::Plan;
use super::{copies, host, kernels, session};
use cuda_um::Device;
use cuda_um::cost::CostModel;
use session::Session;

/// The keys of values that stay built-in on the simulator: its virtual clock does not count the host's own work.
pub const NOT_ON_A_VIRTUAL_CLOCK: &[&str] = &[
    "thread_wake_us",
    "staged_us",
    "host_copy_bytes_per_s",
    "staged_to_device_bytes_per_s",
    "staged_to_host_bytes_per_s",
];

/// The result of a measurement.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Calibration {
    /// The model. Its source names the machine, the measured values, and the built-in model that has the others.
    pub model: CostModel,
    /// The keys of the measured values.
    pub measured: Vec<&'static str>,
    /// The reasons for values that could not be measured.
    pub notes: Vec<String>,
}

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
/// other values are those of [`CostModel::of_gpu`]. `tell` gets the name of each step.
///
/// A value that makes no sense (a negative time), or that this device cannot show, is a note and stays built-in.
///
/// # Ordering
///
/// As for [`OfThisMachine::of_this_machine`](crate::calibrate::OfThisMachine::of_this_machine).
///
/// # Errors
///
/// [`CalibrateError::Device`], and [`CalibrateError::Step`] for an error of CUDA or a wrong result of a copy.
pub fn measure(
    device: &Device,
    plan: Plan,
    clock: &Clock,
    tell: &mut dyn FnMut(&'static str),
) -> Result<Calibration> {
    let begun = machine::source(device)?;
    let mut session = Session::new(device, plan, clock)?;
    session.measure(tell)?;
    let (keys, others) = (session.keys().join(", "), &session.model.source);
    let source = format!("{begun}{}: {keys}; others {others}", clock.how());
    tracing::debug!(source, "calibrated");
    Ok(session.end(source))
}

impl Calibration {
    /// The keys of values that were not measured, which are those of the built-in model.
    #[must_use]
    pub fn built_in(&self) -> Vec<&'static str> {
        let keys = self.model.values().into_iter().map(|(key, _)| key);
        keys.filter(|key| !self.measured.contains(key)).collect()
    }
}

impl Session {
    /// Measures the values that decide placements.
    ///
    /// # Errors
    ///
    /// [`CalibrateError::Step`]
    pub fn measure(&mut self, tell: &mut dyn FnMut(&'static str)) -> Result<()> {
        for &(name, step) in STEPS {
            tell(name);
            // The pinned memory of an earlier step and of its copies.
            self.device.trim();
            step(self).map_err(|source| CalibrateError::Step { step: name, source })?;
        }
        Ok(())
    }

    fn keys(&self) -> Vec<&'static str> {
        self.measured.iter().copied().collect()
    }

    /// The values so far, as a model with this source.
    #[must_use]
    pub fn end(self, source: String) -> Calibration {
        let measured = self.keys();
        let mut model = self.model;
        model.source = source;
        Calibration {
            model,
            measured,
            notes: self.notes,
        }
    }
}
