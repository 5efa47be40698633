//! The tests of the planner, one module for each subject.

mod exact;
mod plans;
mod random;
#[path = "../support/shapes.rs"]
mod shapes;
mod support;
mod wrong_plans;
