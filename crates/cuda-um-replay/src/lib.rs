#![doc = include_str!("../README.md")]
//!
//! A replay keeps the operations, their order, their streams, their memory, and the own time of each kernel (its time with all
//! data in place). It does not keep addresses, contents, the threads of the host (one thread makes all operations), and the
//! pages that a guard really touched (the replay touches the whole range of the guard).

mod accesses;
mod change;
mod error;
mod limits;
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
