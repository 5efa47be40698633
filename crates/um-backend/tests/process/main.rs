//! Processes: children made by `fork`, and the end of a process.
#![cfg(unix)]

mod exit;
mod fork;
