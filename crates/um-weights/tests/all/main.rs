//! The tests of um-weights, one module for each subject.

mod each;
mod failures;
mod gguf;
mod headers;
mod index;
mod load;
mod program;
mod round_trip;
mod save;
mod slices;
mod support;
