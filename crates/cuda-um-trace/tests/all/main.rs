//! The tests of traces, one module for each subject.

mod attribution;
#[cfg(feature = "cli")]
mod cli;
mod findings;
mod hostile;
mod patterns;
mod pictures;
mod report_text;
mod support;
