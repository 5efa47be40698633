//! The contract of `Buffer`, the promised calls, what a framework builds on, memory, wrong uses, and allocations of hot calls.

#[path = "../support/mod.rs"]
mod support;

mod allocations;
mod api_rows;
mod conformance;
mod framework;
mod memory;
mod wrong_uses;
