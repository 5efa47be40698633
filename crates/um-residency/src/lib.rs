#![doc = include_str!("../README.md")]

mod access;
mod arena;
mod budget;
mod cycle;
mod entries;
mod entry;
mod error;
mod guard;
mod held;
mod home;
mod homed;
mod homed_buffer;
mod host;
mod host_memory;
mod lane;
mod lock;
mod order;
mod place;
mod request;
mod set;
mod state;
mod stats;
mod thread;
mod transfer;
mod wait;
mod working_set;

pub use access::Role;
pub use arena::Arena;
pub use budget::Budget;
pub use error::{Error, Result};
pub use guard::{ReadGuard, WriteGuard};
pub use homed::Homed;
pub use request::{InOut, Input, Output, WorkingSet};
pub use stats::Stats;
pub use working_set::working_set;
