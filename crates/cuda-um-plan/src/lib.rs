#![doc = include_str!("../README.md")]

mod check;
mod error;
mod json;
mod link;
mod plan;
mod program;
mod simulate;
mod solve;

pub use error::PlanError;
pub use link::{Budget, Link};
pub use plan::{Moment, Placed, Plan, PlannedStep, Prediction, Slots, Transfer, TransferKind};
pub use program::{Access, BufferSpec, Program, Repeat, Role, Step, Use};

/// The unit of places in device memory: 2 MiB.
pub const SLOT_BYTES: u64 = 2 << 20;
