//! Automatic prefetch: the same loops with it, without it, and with prefetches by hand. Times are those of the simulator.
#![cfg(feature = "auto-prefetch")]

#[path = "../support/mod.rs"]
mod support;

mod advice;
mod gains;
mod limits;
mod rounds;
mod safety;
