//! What the simulation needs of a plan.

use super::thread::Duty;
use crate::Moment;

/// A transfer to the device, or the claim of a place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// Its time if the other direction is idle.
    pub seconds: f64,
    pub earliest: Option<Moment>,
    /// The transfer from the device, counted from the first one of this pass, that must be complete before.
    pub waits_for: Option<i64>,
}

/// What the simulation needs of a plan, in the order of execution.
#[derive(Debug, Default)]
pub(crate) struct Work {
    pub ins: Vec<Entry>,
    /// The step after which each transfer from the device begins, and its time.
    pub outs: Vec<(usize, f64)>,
    /// For each step: the number of transfers to the device that belong to the steps up to it.
    pub ins_until: Vec<usize>,
    /// For each step: the transfer from the device before which it cannot claim its places.
    pub claims: Vec<Option<i64>>,
    /// For each step: the time to read in place.
    pub in_place: Vec<f64>,
    /// What the thread does with files, in order. Empty without files.
    pub thread: Vec<Duty>,
    /// For each step: the number of duties before it.
    pub thread_until: Vec<usize>,
    /// For each transfer to the device: its duty, counted from the first one of this pass.
    pub thread_of_ins: Vec<Option<i64>>,
    pub compute: Vec<f64>,
    pub both_ways: f64,
    pub cyclic: bool,
}
