//! What the tests of several crates of this workspace share: machines, checks at the end of a test, a kernel, failures.
//!
//! The machine of a test is a GPU with `CUDA_UM_TEST_RUNTIME=cuda`, otherwise the simulator that the `CUDA_UM_SIM_*` variables
//! select.
#![allow(
    missing_docs,
    clippy::missing_errors_doc,
    clippy::missing_panics_doc,
    reason = "only tests use this crate, and they panic if they fail"
)]

mod add;
mod again;
mod any;
pub mod call;
mod checked;
#[cfg(unix)]
pub mod child;
mod everything;
pub mod faults;
#[cfg(unix)]
mod libraries;
mod machine;
mod output;
mod panics;
mod refusal;
#[cfg(unix)]
mod sim_lib;
mod told;
pub mod watchdog;

pub use add::{ADD_PTX, Add};
pub use again::{again, is_child, this_program};
pub use any::AnyBuffer;
pub use checked::Checked;
pub use everything::everything;
#[cfg(unix)]
pub use libraries::{open_sim_libraries, sim_libraries};
pub use machine::{
    calls, checked, device, fail_waits, is_concurrent, machine, machines, no_memory_left, on,
    on_gpu, open, open_with, simulated, simulated_with, unpooled, unwatched, without_pools,
};
pub use output::{Output, show};
pub use panics::message;
pub use told::Told;
