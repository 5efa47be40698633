//! The contract of `Buffer`, the promised calls, what a framework builds on, memory, wrong uses, failures of CUDA, and allocations of hot calls.

#[path = "../support/mod.rs"]
mod support;

mod allocations;
mod api_rows;
mod conformance;
mod faults;
mod framework;
mod memory;
mod wrong_uses;
