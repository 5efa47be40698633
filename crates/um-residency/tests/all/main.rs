//! The tests of the library, one module for each subject. `fork.rs` and `locks.rs` have a process of their own.

mod conformance;
mod faults;
mod in_place;
mod model;
mod passes;
#[path = "../support/mod.rs"]
mod support;
mod unified;
mod working_set;
