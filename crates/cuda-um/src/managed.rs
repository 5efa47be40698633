//! Where managed memory is: advice, prefetches, and what is known of it.

pub(crate) mod advice;
pub(crate) mod batch;
pub(crate) mod prefetch;
pub(crate) mod residency;
