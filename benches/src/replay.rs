//! Replays a recorded trace (`cuda-um`'s feature `profile`) on a simulated machine and predicts its cost: on the same machine, on another
//! GPU, or with other placement, advice and prefetches.
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
mod run;
mod spent;
mod whole;

pub use change::Change;
pub use error::ReplayError;
pub use spent::Spent;
pub use whole::{Replay, Replayed};
