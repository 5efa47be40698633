#![doc = include_str!("../README.md")]

mod arena;
mod budget;
mod entry;
mod error;
mod guard;
mod held;
mod home;
mod homed;
mod homed_buffer;
mod host;
mod pass;
mod place;
mod request;
mod role;
mod set;
mod state;
mod stats;
mod transfer;
mod wait;
mod working_set;

pub use arena::Arena;
pub use budget::Budget;
pub use error::{Error, Result};
pub use guard::{ReadGuard, WriteGuard};
pub use homed::Homed;
pub use request::{Read, Update, WorkingSet, Write};
pub use role::{Access, Role};
pub use stats::{Change, LoggedChange, Stats};
pub use working_set::working_set;
