#![doc = include_str!("../README.md")]
//!
//! What a replay keeps: which operations there were, in which order, on which streams, on what memory, and how long each kernel takes
//! by itself. What it does not: the addresses, the contents, the threads of the host (all operations come from one), and which pages
//! of a guard's range the host really touched (it touches all).

mod change;
mod error;
mod machine;
mod memory;
mod own_time;
mod replay;
mod run;
mod spent;

pub use change::Change;
pub use error::ReplayError;
pub use replay::{Replay, Replayed};
pub use spent::Spent;
