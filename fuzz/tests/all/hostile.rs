//! Inputs of about 1 MB that are built to need much time or memory: each target must process them within limits.

mod files;
mod records;
mod traces;

use crate::support::{self, Limits};
use std::time::Duration;

/// The approximate size of the inputs.
const SIZE: usize = 1 << 20;

/// The targets process an input in several steps, and keep some of the results.
const LIMITS: Limits = Limits {
    time: Duration::from_secs(60),
    bytes: 64 << 20,
    bytes_of_each: 64,
};

/// Runs a target on an input.
fn run(name: &str, target: um_fuzz::Target, input: &[u8]) {
    let alone = support::alone();
    let started = std::time::Instant::now();
    let bytes = alone.run(name, target, input, LIMITS);
    let (size, took) = (input.len(), started.elapsed());
    println!("{name}: {size} bytes took {took:?} and {bytes} bytes of the heap");
}
