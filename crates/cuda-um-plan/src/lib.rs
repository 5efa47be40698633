#![doc = include_str!("../README.md")]

mod bound;
mod check;
mod display;
mod error;
mod json;
mod link;
mod places;
mod plan;
mod program;
mod simulate;
mod solve;
mod transfers;
mod units;

pub use bound::Bound;
pub use error::PlanError;
pub use link::{FileLink, Link, PlanBudget};
pub use plan::{Moment, Plan, PlannedStep, Prediction, Resident, Slots, Transfer, TransferKind};
pub use program::{Access, BufferSpec, Program, Repeat, Role, Step, Use};
pub use solve::Recipe;

/// The unit of places in device memory: 2 MiB.
pub const SLOT_BYTES: u64 = 2 << 20;
