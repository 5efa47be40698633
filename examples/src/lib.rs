//! What the examples of cuda-um share.

pub mod machine;
pub mod mini_framework;
#[cfg(doctest)]
mod pages;

/// The error that ended a program; its text is one line.
pub type Failure = Box<dyn std::error::Error>;
