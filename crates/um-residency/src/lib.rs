#![doc = include_str!("../README.md")]

mod announce;
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
mod lanes;
mod link;
mod pass;
mod place;
mod planned;
mod record;
mod report;
mod request;

mod set;
mod state;
mod stats;
mod steer;
mod transfer;
mod wait;
mod working_set;

pub use arena::Arena;
pub use budget::Budget;
pub use cuda_um_plan::{self, Access, Link, Plan, Program, Role};
pub use error::{Error, Result};
pub use guard::{ReadGuard, WriteGuard};
pub use homed::Homed;
pub use pass::Divergence;
pub use planned::Planned;
pub use report::{PassReport, Report};
pub use request::{Read, Update, WorkingSet, Write};
pub use stats::{Change, LoggedChange, Stats};
pub use working_set::working_set;
