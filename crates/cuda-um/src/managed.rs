//! The location of managed memory: advice, prefetches, and the residency cache.

pub(crate) mod advice;
pub(crate) mod batch;
pub(crate) mod hint;
pub(crate) mod prefetch;
pub(crate) mod residency;

pub use crate::managed::residency::{RangeAttributes, Residency};
