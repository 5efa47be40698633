//! The main job (`batch_recall`) and the examples of cuda-um.

pub mod args;
pub mod batch_recall;
pub mod budget;
pub mod devices;
pub mod error;
pub mod input;
pub mod machine;
pub mod mini_framework;
pub mod npy;
#[cfg(doctest)]
mod pages;
pub mod place;
mod profile;
pub mod progress;
pub mod report;
pub mod search;
pub mod shipped;
pub mod texts;
pub mod truth;
pub mod validate;

/// The error that ended a program; its text is one line.
pub type Failure = Box<dyn std::error::Error>;
