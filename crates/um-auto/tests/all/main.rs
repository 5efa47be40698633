//! Automatic prefetch: the same loops with it, without it, and with prefetches by hand. Times are those of the simulator.

mod advice;
mod gains;
mod limits;
mod rounds;
mod safety;
