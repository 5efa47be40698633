//! Runs PTX kernels on the CPU.

pub mod math;
