//! A small tensor library on `um-backend`: six element types, views, copy on write, own kernels, streams, files, several devices.
//! `docs/framework.md` builds it step by step.

mod files;
mod kernels;
mod layout;
mod ops;
mod places;
mod scalar;
mod tensor;
mod views;

pub use files::{load, save};
pub use places::Cache;
pub use scalar::{Op, Scalar};
pub use tensor::{Place, Tensor};
