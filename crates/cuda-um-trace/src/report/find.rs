//! The search for findings. Each search skips the records that earlier ones have claimed, so that no saving counts twice.

mod driver;
mod faults;
mod ping_pong;
mod prefetches;
mod price;
mod read_mostly;
mod round_trips;

pub(crate) use ping_pong::ALTERNATIONS;
pub(crate) use round_trips::alternations;

use super::Finding;
use super::context::Context;
use std::collections::HashSet;

pub(super) fn all(context: &Context) -> Vec<Finding> {
    let mut findings = Vec::new();
    let buffers = &context.trace.buffers;
    let slabs: HashSet<u64> = buffers.iter().filter_map(|buffer| buffer.slab).collect();
    for (buffer, described) in buffers.iter().enumerate() {
        // The program has no object for a slab, so no call can change what happens to it.
        if slabs.contains(&described.id) {
            continue;
        }
        // Prefetches and advice are refused there. Only memory that does not move helps.
        if !context.migrates(buffer) {
            findings.extend(ping_pong::between_host_and_device(context, buffer));
            continue;
        }
        // Data that need not move come before data that can move in a better way.
        findings.extend(round_trips::read_by_both(context, buffer));
        findings.extend(round_trips::unused_prefetches(context, buffer));
        findings.extend(faults::of_devices(context, buffer));
        findings.extend(faults::of_the_host(context, buffer));
        findings.extend(prefetches::twice(context, buffer));
        findings.extend(prefetches::left_out(context, buffer));
        findings.extend(read_mostly::collapsed(context, buffer));
        findings.extend(ping_pong::between_host_and_device(context, buffer));
        findings.extend(driver::told(context, buffer));
    }
    findings.sort_by_key(|finding| {
        let saves = finding.saves;
        (
            finding.alternative,
            std::cmp::Reverse((saves.time, saves.faults)),
        )
    });
    findings
}
