//! Fault injection: failures of CUDA calls, what they may leave behind, and many runs at the same time.

pub mod check;
pub mod failure;
pub mod leaks;
pub mod rules;
pub mod workers;
