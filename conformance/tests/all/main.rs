//! The tests of the cases.

mod coverage;
mod gpu_results;
mod simulator;
