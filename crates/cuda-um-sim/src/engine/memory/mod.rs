//! Memory of every kind: addresses, allocations, registrations, and the work that uses them.

mod allocation;
mod free;
mod free_list;
mod map;
mod registration;
mod span;
mod use_check;

pub(crate) use allocation::Kind;
pub(crate) use map::{MemoryMap, Request};
pub(crate) use registration::{READ_ONLY, Registered};
pub(crate) use span::{Memory, Span};
