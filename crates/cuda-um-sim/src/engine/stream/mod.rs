//! Streams and events, and the context in which streams run their work.

mod completion;
mod context;
mod event;
mod gate;
mod kernels;
mod queue;
mod set;

pub(crate) use completion::Completion;
pub(crate) use context::Context;
pub(crate) use event::Events;
pub(crate) use gate::Hold;
pub(crate) use queue::{Progress, Stream, StreamKind, Work};
pub(crate) use set::Streams;
