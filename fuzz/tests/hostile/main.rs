//! Inputs of about 1 MB that are made to take long, or much memory: each target does all that it does with them within bounds.

mod files;
mod replays;
#[path = "../support/mod.rs"]
mod support;
mod traces;

use std::time::Duration;
use support::Limits;

/// About what the inputs have.
const SIZE: usize = 1 << 20;

/// The targets do in turn all that there is to do with an input, and keep some of it meanwhile.
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
