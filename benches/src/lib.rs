//! Measurements of cuda-um, raw CUDA and other libraries.
//!
//! The binary `um_bench` runs them; `docs/measuring.md` describes the method and how to repeat them.
//!
//! - [`Bench`]: the machine (a GPU, or the simulator), its clock, the settings, the peers.
//! - [`first_use`]: the first uses of fresh processes.
//! - [`measure`]: contenders in turn, round by round, with fresh data and every result verified.
//! - [`measurements`]: the measurements, one file for each.
//! - [`raw`]: raw CUDA, with no library in between.
//! - [`report`]: JSON and Markdown.
#![allow(
    clippy::missing_errors_doc,
    reason = "a function fails if CUDA, a peer or a file does, and the error says so"
)]

mod bench;
pub mod clock;
pub mod data;
pub mod first_use;
pub mod measure;
pub mod measurements;
pub mod peer;
pub mod raw;
pub mod report;
pub mod stats;

pub use bench::{Bench, Settings};
