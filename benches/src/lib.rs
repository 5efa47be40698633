//! Measurements of cuda-um beside raw CUDA and its peers.
//!
//! The binary `um_bench` runs them; `docs/measuring.md` says how they measure and how to repeat them.
//!
//! - [`Bench`]: the machine (a GPU, or the simulator), its clock, the settings, the peers.
//! - [`measure`]: contenders in turn, round by round, with fresh data and every result verified.
//! - [`measurements`]: what is measured, a file each.
//! - [`calibrate`]: the figures of a cost model, measured.
//! - [`raw`]: CUDA by its own functions, with no library in between.
//! - [`report`], [`plot`], [`overview`]: JSON, Markdown, a plot for each measurement, and one of the whole.

mod bench;
pub mod calibrate;
pub mod clock;
pub mod data;
pub mod measure;
pub mod measurements;
pub mod overview;
pub mod peer;
pub mod plot;
pub mod raw;
pub mod report;
pub mod stats;

pub use bench::{Bench, Settings};
