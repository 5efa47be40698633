//! The measurements, one file for each.

mod allocate;
mod copy_from_host;
mod copy_to_host;
mod devices;
mod from_slice;
mod graph;
mod launch;
mod measurement;
mod prefetch;
mod prefetch_batch;
mod round_trip;
mod step;
mod way;

pub use measurement::Measurement;

/// All measurements, in the order of the report.
pub const ALL: [Measurement; 15] = [
    copy_from_host::RETURNED,
    copy_from_host::ARRIVED,
    copy_to_host::MEASUREMENT,
    from_slice::MEASUREMENT,
    round_trip::MEASUREMENT,
    prefetch::MOVING,
    prefetch::THERE,
    prefetch_batch::MEASUREMENT,
    launch::MEASUREMENT,
    graph::HOST,
    graph::DONE,
    graph::TOUCHED,
    allocate::MEASUREMENT,
    step::MEASUREMENT,
    devices::MEASUREMENT,
];
