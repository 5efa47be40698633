//! Memory that moves between host and device by faults.

use super::round_trips::{alternations, faults_price};
use crate::Cause;
use crate::report::context::Context;
use crate::report::{Finding, FindingKind, Saving};
use cuda_um_cost::at_rate;

/// The number of changes of direction from which on there is a finding.
pub(crate) const ALTERNATIONS: u64 = 3;

/// One remedy is to prefetch (see the findings about faults), if the device allows it; another is memory that does not move.
pub(super) fn between_host_and_device(context: &Context, buffer: usize) -> Option<Finding> {
    let (alternations, to_device, to_host) = alternations(context, buffer, Cause::by_fault);
    if alternations < ALTERNATIONS {
        return None;
    }
    let model = context.model;
    let (faults, was) = faults_price(context, buffer);
    // With mapped memory the data of each kernel cross the link at each run, in the direction of their use.
    let would_be = at_rate(to_device.max(to_host), model.remote_rate);
    if would_be >= was {
        return None;
    }
    let saves = Saving {
        bytes: to_device + to_host,
        faults,
        time: was - would_be,
    };
    let kind = FindingKind::PingPong {
        alternations,
        bytes: to_device + to_host,
    };
    Some(Finding {
        alternative: context.migrates(buffer),
        ..context.finding(buffer, kind, saves)
    })
}
