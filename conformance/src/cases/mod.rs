//! The cases, one file for each group.

mod advice;
mod advice_reach;
mod allocation;
mod attributes;
mod batch;
mod capture;
mod capture_refused;
mod copies;
mod counting;
mod default_streams;
mod devices;
mod errors;
mod event_order;
mod events;
mod generation;
mod graphs;
mod host_access;
mod launch;
mod location;
mod memset;
mod migration;
mod modules;
mod peers;
mod pinned;
mod pointers;
mod pools;
mod pools_managed;
mod prefetch;
mod prelude;
mod refused_ranges;
mod registered;
mod residency;
mod several_devices;
mod sources;
mod sticky;
mod stream_pools;
mod streams;
mod system_memory;
mod versions;

use crate::Case;

const GROUPS: &[&[Case]] = &[
    versions::CASES,
    devices::CASES,
    generation::CASES,
    errors::CASES,
    allocation::CASES,
    pointers::CASES,
    pinned::CASES,
    registered::CASES,
    advice::CASES,
    advice_reach::CASES,
    attributes::CASES,
    location::CASES,
    prefetch::CASES,
    refused_ranges::CASES,
    batch::CASES,
    residency::CASES,
    host_access::CASES,
    streams::CASES,
    default_streams::CASES,
    events::CASES,
    event_order::CASES,
    stream_pools::CASES,
    pools::CASES,
    pools_managed::CASES,
    copies::CASES,
    memset::CASES,
    modules::CASES,
    launch::CASES,
    capture::CASES,
    capture_refused::CASES,
    graphs::CASES,
    several_devices::CASES,
    peers::CASES,
    migration::CASES,
    system_memory::CASES,
    sticky::CASES,
];

/// All cases, in the order in which they run.
pub fn all() -> impl Iterator<Item = &'static Case> {
    GROUPS.iter().copied().flatten()
}
