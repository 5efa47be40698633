//! A pass that is being recorded or run.

/// Placeholder.
pub(crate) enum Pass {}
