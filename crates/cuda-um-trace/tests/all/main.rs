//! The tests of traces, one module for each subject.

// Unit tests of parts, which need no program of their own.
#[allow(dead_code, reason = "only its tests are used")]
#[path = "../../src/units.rs"]
mod units;

mod attribution;
#[cfg(feature = "cli")]
mod cli;
mod findings;
mod limits;
mod patterns;
mod pictures;
mod report_text;
mod support;
