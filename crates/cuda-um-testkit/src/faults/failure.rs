//! A failure: the call, the time and the way.

use cuda_um::Error;
use cuda_um::sys::cudaError;
use cuda_um_sim::{Fail, Sim};
use std::fmt;

/// The way in which a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    OutOfMemory,
    InvalidValue,
    /// The work is done, and a failure is reported: any function may report the failure of earlier work.
    Late,
    Sticky,
    HardwareFault,
    DeviceLost,
    NoDevice,
}

pub const KINDS: [Kind; 7] = [
    Kind::OutOfMemory,
    Kind::InvalidValue,
    Kind::Late,
    Kind::Sticky,
    Kind::HardwareFault,
    Kind::DeviceLost,
    Kind::NoDevice,
];

impl Kind {
    pub fn is_sticky(self) -> bool {
        matches!(
            self,
            Self::Sticky | Self::HardwareFault | Self::DeviceLost | Self::NoDevice
        )
    }

    /// Differs from another kind only in its code: tried only with the first call of each name.
    fn is_variant(self) -> bool {
        matches!(self, Self::HardwareFault | Self::NoDevice)
    }

    fn code(self) -> cudaError {
        match self {
            Self::OutOfMemory => cudaError::cudaErrorMemoryAllocation,
            Self::InvalidValue | Self::Late => cudaError::cudaErrorInvalidValue,
            Self::Sticky => cudaError::cudaErrorIllegalAddress,
            Self::HardwareFault => cudaError::cudaErrorECCUncorrectable,
            Self::DeviceLost => cudaError::cudaErrorDevicesUnavailable,
            Self::NoDevice => cudaError::cudaErrorNoDevice,
        }
    }
}

/// Queries: their failure has no effect on other operations.
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
            kind if kind.is_sticky() => failure.sticky(),
            _ => failure,
        });
    }

    /// The position of the call in the trace.
    pub fn position(&self, sim: &Sim) -> Option<usize> {
        let (call, code) = (self.call, self.kind.code());
        let is_it = |name: &str, result| name == call && result == code;
        sim.trace()
            .iter()
            .position(|record| is_it(record.name, record.result))
    }

    /// The function's name without the suffix of its version, as in errors.
    pub fn name(&self) -> &'static str {
        let stripped = self.call.strip_suffix("_v2");
        let stripped = stripped.or(self.call.strip_suffix("_v3"));
        stripped.unwrap_or(self.call)
    }

    /// True if the error says which call failed, for which subject and in which way.
    pub fn is_told_by(&self, error: &Error) -> bool {
        let is_this = |call: &str, subject: &str| call == self.name() && !subject.is_empty();
        match error {
            Error::Incomplete { cause, .. } | Error::Shard { cause, .. } => self.is_told_by(cause),
            Error::OutOfMemory { call, subject, .. } => {
                self.kind == Kind::OutOfMemory && is_this(call, subject)
            }
            Error::Call {
                call,
                subject,
                code,
                ..
            } => {
                // Out of memory is a separate error.
                let kind = self.kind != Kind::OutOfMemory;
                kind && *code == self.kind.code().0 && is_this(call, subject)
            }
            Error::NoDevice { call } => self.kind == Kind::NoDevice && *call == self.name(),
            _ => false,
        }
    }

    /// True if the error says that the context is broken, and with which code. It may name any call that met the error first.
    pub fn broke(&self, error: &Error) -> bool {
        match error {
            Error::Incomplete { cause, .. } | Error::Shard { cause, .. } => self.broke(cause),
            Error::Sticky {
                call,
                subject,
                code,
                ..
            } => *code == self.kind.code().0 && !call.is_empty() && !subject.is_empty(),
            _ => false,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { call, nth, kind } = self;
        write!(f, "{call} #{nth} {kind:?}")
    }
}

/// The failures that occurred. Two equal failures are distinguished by their count in the trace.
pub fn struck(failures: &[Failure], sim: &Sim) -> Vec<Failure> {
    let trace = sim.trace();
    let seen = |failure: &Failure| {
        let is_it = |(name, code)| name == failure.call && code == failure.kind.code();
        let records = trace.iter().map(|record| (record.name, record.result));
        records.filter(|record| is_it(*record)).count()
    };
    let alike = |a: &Failure, b: &Failure| a.call == b.call && a.kind.code() == b.kind.code();
    let all = failures.iter().enumerate();
    all.filter(|(index, failure)| {
        let before = failures[..*index].iter();
        seen(failure) > before.filter(|before| alike(before, failure)).count()
    })
    .map(|(_, failure)| *failure)
    .collect()
}

/// The failures to try for calls with these counts: the first few calls of each name and the last one, in every way.
pub fn each_once(calls: &[(&'static str, u64)], first: u64) -> Vec<Failure> {
    let mut all = Vec::new();
    for &(call, count) in calls {
        for nth in (1..=count).filter(|nth| *nth <= first || *nth == count) {
            let kinds = KINDS.into_iter();
            let kinds = kinds.filter(|kind| nth == 1 || !kind.is_variant());
            all.extend(kinds.map(|kind| Failure { call, nth, kind }));
        }
    }
    all
}

/// The calls of the trace, with their counts.
pub fn calls(sim: &Sim) -> Vec<(&'static str, u64)> {
    let mut calls: Vec<(&'static str, u64)> = Vec::new();
    for record in sim.trace() {
        match calls.iter_mut().find(|(name, _)| *name == record.name) {
            Some((_, count)) => *count += 1,
            None => calls.push((record.name, 1)),
        }
    }
    calls.retain(|(call, _)| !is_inquiry(call));
    calls
}
