//! The location of managed memory: advice, prefetches, and residency.

pub(crate) mod advice;
pub(crate) mod batch;
mod by_ordinal;
pub(crate) mod hint;
mod methods;
pub(crate) mod residency;

pub use crate::managed::batch::{PrefetchBatch, Prefetched};
pub use crate::managed::by_ordinal::MemoryAdvice;
#[doc(hidden)]
pub use crate::managed::by_ordinal::{location, not_managed};
pub use crate::managed::hint::HintOutcome;
pub use crate::managed::residency::RangeAttributes;
