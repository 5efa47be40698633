//! The unit tests of this crate include this file.

pub use cuda_um_testkit::watchdog::*;
