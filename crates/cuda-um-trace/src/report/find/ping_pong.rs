//! Memory that host and device fault away from each other.

use super::round_trips::{alternations, faults_price};
use crate::report::context::Context;
use crate::report::{Finding, FindingKind, Saving};
use cuda_um_cost::at_rate;

/// From here on it is a habit.
const ALTERNATIONS: u64 = 3;

/// Prefetches (the findings about faults) are one way out; memory that does not move is another.
pub(super) fn between_host_and_device(context: &Context, buffer: usize) -> Option<Finding> {
    let (alternations, to_device, to_host) = alternations(context, buffer);
    if alternations < ALTERNATIONS {
        return None;
    }
    let model = context.model;
    let (faults, was) = faults_price(context, buffer);
    // What a kernel wanted of it crosses the link at each run, in the direction of its use.
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
        alternative: true,
        ..context.finding(buffer, kind, saves)
    })
}
