#![doc = include_str!("../README.md")]

mod json;
mod link;
mod model;
mod presets;

pub use json::CostError;
pub use link::Link;
pub use model::{CostModel, at_rate};
