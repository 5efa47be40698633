//! The tests of the planner, one module for each subject.

mod arena;
mod exact;
#[cfg(feature = "trace")]
mod from_trace;
mod plans;
mod random;
#[path = "../support/shapes.rs"]
mod shapes;
mod support;
mod wrong_plans;
