//! Counts the migrations and faults of a piece of work.

use super::prelude::*;
use crate::Value;
use std::ops::RangeInclusive;

/// Numbers of faults depend on how a GPU schedules its blocks: if they are not zero, two machines may differ by this factor.
const FACTOR: u64 = 4;

/// The expected migrations and faults of a piece of work.
pub(super) struct Moves {
    to_device: RangeInclusive<u64>,
    to_host: RangeInclusive<u64>,
    cpu_faults: RangeInclusive<u64>,
    gpu_fault_groups: RangeInclusive<u64>,
}

/// Exactly these bytes move, and there are no faults.
pub(super) fn exactly(to_device: usize, to_host: usize) -> Moves {
    Moves {
        to_device: to_device as u64..=to_device as u64,
        to_host: to_host as u64..=to_host as u64,
        cpu_faults: 0..=0,
        gpu_fault_groups: 0..=0,
    }
}

impl Moves {
    /// The rule limits the bytes to the device by a minimum and a maximum.
    pub(super) fn moving_to_device(self, bytes: RangeInclusive<usize>) -> Self {
        Moves {
            to_device: *bytes.start() as u64..=*bytes.end() as u64,
            ..self
        }
    }

    /// The host faults, but the GPU does not.
    pub(super) fn by_host_faults(self) -> Self {
        Moves {
            cpu_faults: 1..=u64::MAX,
            ..self
        }
    }

    /// The GPU faults, but the host does not.
    pub(super) fn by_gpu_faults(self) -> Self {
        Moves {
            gpu_fault_groups: 1..=u64::MAX,
            ..self
        }
    }
}

/// Runs a piece of work to its end, records migrations and faults, and checks them.
pub(super) fn counted(
    c: &Cuda<'_>,
    what: &str,
    expected: Moves,
    work: impl FnOnce() -> Verdict,
) -> Verdict {
    let counts = || {
        c.machine
            .counts()
            .map_err(|error| Failure(error.to_string()))
    };
    c.ok("synchronize before", c.synchronize())?;
    let before = counts()?;
    work()?;
    c.ok("synchronize behind", c.synchronize())?;
    let after = counts()?;
    let (to_device, to_host) = (
        after.to_device - before.to_device,
        after.to_host - before.to_host,
    );
    let cpu_faults = after.cpu_faults - before.cpu_faults;
    let groups = after.gpu_fault_groups - before.gpu_fault_groups;
    let mut verdict = Ok(());
    let rows = [
        ("bytes to the device", true, to_device, expected.to_device),
        ("bytes to the host", true, to_host, expected.to_host),
        ("CPU faults", false, cpu_faults, expected.cpu_faults),
        ("GPU fault groups", false, groups, expected.gpu_fault_groups),
    ];
    for (kind, exact, count, allowed) in rows {
        let value = match exact {
            true => Value::Number(count),
            false => Value::About {
                about: count,
                factor: FACTOR,
            },
        };
        c.note(&format!("{what}: {kind}"), value);
        if verdict.is_ok() && !allowed.contains(&count) {
            verdict = fail(format!(
                "{what}: {count} {kind}, expected {}",
                text(&allowed)
            ));
        }
    }
    verdict
}

fn text(allowed: &RangeInclusive<u64>) -> String {
    match (*allowed.start(), *allowed.end()) {
        (least, u64::MAX) => format!("at least {least}"),
        (least, most) if least == most => least.to_string(),
        (least, most) => format!("{least} to {most}"),
    }
}
