//! CUDA's rules as cases that run alike on the simulator and on a GPU.
//!
//! The binary `um_conformance` runs and compares them; `docs/conformance.md` says how, and how to add one.
//!
//! - [`Case`]: a rule, where it is written, what it needs, and a function that checks it. [`cases::all`] lists them.
//! - [`Machine`]: what they run on, a [`cuda_um_sys::Table`] of either kind; cases call its functions themselves, not `cuda-um`.
//! - [`run`]: one case at a time, under a watchdog; what may break the context runs in a process of its own.
//! - [`Record`], [`compare`]: what was seen, and the same seen on two machines.
//! - [`declared`]: the differences that are known.

mod call;
mod case;
pub mod cases;
pub mod child;
pub mod compare;
pub mod declared;
mod failure;
pub mod file;
mod kernels;
mod machine;
mod record;
pub mod run;

pub use call::Cuda;
pub use case::{Case, Need};
pub use failure::{Failure, Verdict};
pub use machine::{Choice, Facts, GPUS, Machine, VERSIONS};
pub use record::{Outcome, Record, Run, Value};
