//! The tests of the library, one module for each subject. `fork.rs` and `locks.rs` have a process of their own.

mod conformance;
mod faults;
mod model;
mod order;
#[path = "../support/mod.rs"]
mod support;
mod unified;
mod working_set;
