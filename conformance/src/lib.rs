//! CUDA's rules as cases that run unchanged on the simulator and on a GPU.
//!
//! The binary `um_conformance` runs and compares them. `docs/conformance.md` describes this, and explains how to add a case.
//!
//! - [`Case`]: a rule, its source, its requirements, and a script that checks it. [`cases::all`] lists them.
//! - [`Machine`]: the machine for the cases, with a [`cuda_um_sys::Table`] of either kind. Cases call the functions of the
//!   table directly, and do not use `cuda-um`.
//! - [`run`]: runs one case at a time, under a watchdog. A case that may break the context runs in a separate process.
//! - [`Record`], [`compare`]: the observations of a case, and the comparison of two machines.
#![allow(
    missing_docs,
    clippy::missing_errors_doc,
    reason = "only its own binary and tests use this library"
)]

mod call;
mod case;
pub mod cases;
pub mod compare;
mod kernels;
mod machine;
mod record;
pub mod run;

pub use call::Cuda;
pub use case::{Case, Need};
pub(crate) use machine::Facts;
pub use machine::{Choice, GPUS, Machine, VERSIONS};
pub use record::{Outcome, Record, Run, Value};
