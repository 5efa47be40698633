//! The simulator of cuda-um as a shared library with the functions of libcuda, libcudart and libcupti.
//!
//! `cargo xtask sim-lib` builds it into `target/sim-lib`. A program that opens CUDA's libraries finds them there if the folder is in
//! `LD_LIBRARY_PATH`. `docs/without-a-gpu.md` in the repository describes its use.
//!
//! - All names are functions of one library, `libcuda.so.1`. The other files only depend on it, so a process has one simulator.
//! - The first call of any function starts the simulator, with the settings of the variables `CUDA_UM_SIM_*`. If it does not start, every function returns `cudaErrorInitializationError`, and the
//!   reason is on standard error.
//! - A function that the simulator or the simulated version does not have returns `cudaErrorNotSupported`.
//! - `include/cuda_um_sim.h` declares the functions that CUDA does not have: they report misuse.
//!
//! This crate does not simulate anything: `cuda-um-sim` does.
#![allow(unsafe_code, reason = "exports C functions")]
// The entry points are written for this processor.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod exports;
mod log;
mod report;
mod start;
