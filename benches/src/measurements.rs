//! The measurements, one file for each.

mod allocate;
mod alternating;
mod auto_prefetch;
mod copy_from_host;
mod copy_to_host;
mod foreign;
mod from_slice;
mod graph;
mod launch;
mod main_job;
mod measurement;
mod pool_growth;
mod prefetch;
mod prefetch_batch;
mod recall;
mod rewrite;
mod round_trip;
mod step;
mod way;

pub use measurement::Measurement;

/// All measurements, in the order of the report.
pub const ALL: [Measurement; 21] = [
    copy_from_host::RETURNED,
    copy_from_host::ARRIVED,
    copy_to_host::MEASUREMENT,
    from_slice::MEASUREMENT,
    round_trip::MEASUREMENT,
    rewrite::MEASUREMENT,
    prefetch::MOVING,
    prefetch::THERE,
    prefetch_batch::MEASUREMENT,
    alternating::MEASUREMENT,
    launch::MEASUREMENT,
    foreign::MEASUREMENT,
    graph::HOST,
    graph::DONE,
    graph::TOUCHED,
    auto_prefetch::MEASUREMENT,
    allocate::MEASUREMENT,
    pool_growth::MEASUREMENT,
    step::MEASUREMENT,
    recall::MEASUREMENT,
    main_job::MEASUREMENT,
];
