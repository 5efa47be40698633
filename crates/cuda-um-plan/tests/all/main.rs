//! The tests of the planner, one module for each subject.

// Unit tests of parts, which need no program of their own.
#[allow(dead_code, reason = "only its tests are used")]
#[path = "../../src/solve/arena.rs"]
mod arena;
#[allow(dead_code, reason = "only its tests are used")]
#[path = "../../src/solve/order.rs"]
mod order;

use cuda_um_plan::Slots;

mod exact;
mod plans;
mod random;
#[path = "../support/shapes.rs"]
mod shapes;
mod support;
mod wrong_plans;
