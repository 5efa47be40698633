//! Every order in which threads can use devices, streams, the in-flight tracker, a pool, the ring that stages copies, deferred frees,
//! the gate of devices without concurrent managed access, and the end of the process.
//!
//! # What it proves
//!
//! Each test is a model: a few threads, and assertions that must hold in every order of their locks and atomics. `checker::model` tries all
//! orders, `checker::preempted` those in which threads are preempted at most two to four times, because all orders would be millions.
//!
//! # How it works
//!
//! The package `cuda-um-loom` (`Cargo.toml` and `build.rs` in this folder) compiles the sources of the library with `cfg(cuda_um_loom)`. Then
//! `sync` has loom's locks, atomics and threads, unit tests are left out, and these models are in, as the modules `models` of the crate, of
//! `resource/pool.rs` and of `buffer/transfer.rs`. A few constants are smaller (a pool has two sizes of blocks, a page has 256 bytes, every
//! copy may have all threads), and time limits are zero (`sync::time_limit`).
//!
//! Only CUDA is played: `table.rs` has its functions, and `engine.rs` their effect. The device does all work as late as it may, in a wait for it,
//! so a missing wait shows. The rest, from `Runtime::from_table` to the drop of the last handle, is the library.
//!
//! Read `checker.rs` and `machine.rs`, then `streams.rs`, which has the smallest models. The others are `in_flight.rs`, `exports.rs`, `frees.rs`,
//! `graphs.rs`, `host_and_device.rs`, `process_end.rs`, `pool/free_blocks.rs`, `pool/whole.rs`, `transfer/staging.rs` and `transfer/workers_alone.rs`.
//!
//! Under Miri (`cargo xtask sanitize miri`), which cannot run loom, the models have the threads and locks of the library: Miri looks for undefined
//! behaviour in one order for each of its seeds.
//!
//! # When it fails
//!
//! The assertion of the model is printed, from the first order in which it does not hold; a deadlock is `deadlock; threads = …`, and a thread that
//! waits in a loop `Model exceeded maximum number of branches`. If loom panics in a function of CUDA, `panic in a function that cannot unwind`
//! ends the process; the first message is the cause. Wrong use of CUDA is an assertion at the end of the model (`Engine::misuse`). loom tries
//! the orders in the same sequence each time, so the same command repeats the failure:
//!
//! ```text
//! cargo test -p cuda-um-loom a_guard_that_waits -- --nocapture
//! LOOM_LOG=trace …         each switch of threads, for a test that uses `checker::model` (`preempted` installs no logger)
//! ```
//!
//! For a test that uses `preempted`, print in the model or in the library: the last lines before the panic are those of the failing order.
//!
//! # What it cannot find
//!
//! More preemptions than the bound, and more threads or calls than the model has. Errors of CUDA itself (`model` and `stress` run it). loom sees
//! only the locks and atomics of `crate::sync`: an `Arc`, a `OnceLock`, or an atomic of the standard library is one step. If a thread loads an
//! atomic and then changes it, loom may miss orders in which another thread loads it before (see `StreamInner::completed_to`).
//!
//! # To add
//!
//! A model is a test in one of the files above, in `checker::model` if it takes seconds, otherwise in `preempted`. It ends with no work in flight
//! and no deferred free, because the engine is gone when the model's closure returns. A lock in a static is declared with `sync::global!`, and
//! the order of threads must not depend on a clock. A function of CUDA that no model has called yet goes into `table.rs`.

pub(crate) mod checker;
pub(crate) mod engine;
mod exports;
mod frees;
mod graphs;
mod host_and_device;
mod in_flight;
pub(crate) mod machine;
mod process_end;
mod streams;
mod table;
