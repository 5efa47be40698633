#![doc = include_str!("../README.md")]

mod error;
mod json;
mod link;
mod model;
mod presets;
mod values;

pub use error::CostError;
pub use link::Link;
pub use model::{CostModel, at_rate};
