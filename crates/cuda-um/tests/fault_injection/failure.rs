//! What fails, when and how.

use crate::scenarios::Scenario;
use crate::world::Machine;
use cuda_um::Error;
use cuda_um_sim::{Fail, Sim};
use cuda_um_sys::cudaError;
use std::fmt;

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    OutOfMemory,
    InvalidValue,
    /// The work is done, and a failure reported.
    Late,
    Sticky,
    DeviceLost,
}

pub const KINDS: [Kind; 5] = [
    Kind::OutOfMemory,
    Kind::InvalidValue,
    Kind::Late,
    Kind::Sticky,
    Kind::DeviceLost,
];

impl Kind {
    pub fn is_sticky(self) -> bool {
        matches!(self, Self::Sticky | Self::DeviceLost)
    }

    /// Whether this function can fail like this.
    pub fn fits(self, call: &str) -> bool {
        self != Self::Late || reports_late(call)
    }

    fn code(self) -> cudaError {
        match self {
            Self::OutOfMemory => cudaError::cudaErrorMemoryAllocation,
            Self::InvalidValue | Self::Late => cudaError::cudaErrorInvalidValue,
            Self::Sticky => cudaError::cudaErrorIllegalAddress,
            Self::DeviceLost => cudaError::cudaErrorDevicesUnavailable,
        }
    }
}

/// A function that reports failures of work that went on: it may have done its own.
fn reports_late(call: &str) -> bool {
    [
        "cudaMemcpy",
        "cudaMemset",
        "cuMemset",
        "cuLaunchKernel",
        "cudaMemPrefetch",
        "cudaMemAdvise",
        "cudaEventRecord",
        "cudaEventSynchronize",
        "cudaStreamWaitEvent",
        "cudaStreamSynchronize",
        "cudaDeviceSynchronize",
        "cudaSetDevice",
    ]
    .iter()
    .any(|name| call.starts_with(name))
}

/// Calls that only tell: their failure is nobody's.
pub fn is_inquiry(call: &str) -> bool {
    call.starts_with("cudaGetError")
        || call.starts_with("cuGetError")
        || call.contains("LastError")
        || call.contains("GetVersion")
}

/// One call that fails.
#[derive(Clone, Copy)]
pub struct Failure {
    pub call: &'static str,
    pub nth: u64,
    pub kind: Kind,
}

impl Failure {
    pub fn inject(&self, sim: &Sim) {
        let failure = Fail::call(self.call).nth(self.nth).with(self.kind.code());
        sim.fail(match self.kind {
            Kind::Late => failure.after_the_call(),
            Kind::DeviceLost => failure.sticky(),
            _ => failure,
        });
    }

    /// Where the trace has it.
    pub fn position(&self, sim: &Sim) -> Option<usize> {
        let (call, code) = (self.call, self.kind.code());
        let is_it = |name: &str, result| name == call && result == code;
        sim.trace()
            .iter()
            .position(|record| is_it(record.name, record.result))
    }

    pub fn is_named_by(&self, error: &Error) -> bool {
        // Without what tells versions of a function apart.
        let plain = self.call.strip_suffix("_v2").unwrap_or(self.call);
        error.to_string().contains(plain)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { call, nth, kind } = self;
        write!(f, "{call} #{nth} {kind:?}")
    }
}

/// Failures of one run of a scenario.
#[derive(Clone)]
pub struct Combination {
    pub scenario: &'static Scenario,
    pub machine: Machine,
    pub failures: Vec<Failure>,
}

impl Combination {
    /// Those that struck. Two alike are told apart by how often the trace has them.
    pub fn struck(&self, sim: &Sim) -> Vec<Failure> {
        let trace = sim.trace();
        let seen = |failure: &Failure| {
            let is_it = |(name, code)| name == failure.call && code == failure.kind.code();
            let records = trace.iter().map(|record| (record.name, record.result));
            records.filter(|record| is_it(*record)).count()
        };
        let alike = |a: &Failure, b: &Failure| a.call == b.call && a.kind.code() == b.kind.code();
        let all = self.failures.iter().enumerate();
        all.filter(|(index, failure)| {
            let before = self.failures[..*index].iter();
            seen(failure) > before.filter(|before| alike(before, failure)).count()
        })
        .map(|(_, failure)| *failure)
        .collect()
    }
}

impl fmt::Display for Combination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Machine { gpu, cuda, devices } = self.machine;
        write!(f, "{} {gpu:?} {cuda:?} x{devices}", self.scenario.name)?;
        self.failures
            .iter()
            .try_for_each(|failure| write!(f, ", {failure}"))
    }
}
