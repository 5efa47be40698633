//! Every order in which threads can use devices, streams, the in-flight tracker, a pool, the ring that stages copies, deferred frees,
//! the gate of devices without concurrent managed access, and the end of the process.
//!
//! Each test is a model: a few threads, and assertions that must hold in every order of their locks and atomics. `checker::model` tries all
//! orders, `checker::preempted` those in which threads are preempted at most two to four times, because all orders would be millions.
//!
//! The package `cuda-um-loom` (`Cargo.toml` and `build.rs` in this folder) compiles the sources of the library with `cfg(cuda_um_loom)`. Then
//! `sync` has loom's locks, atomics and threads, unit tests are left out, and these models are in, as the modules `models` of the crate, of
//! `resource/pool.rs` and of `buffer/transfer.rs`. A few constants are smaller (a pool has two sizes of blocks, a page has 256 bytes, every
//! copy may have all threads), and time limits are zero (`sync::time_limit`). Only CUDA is played: `table.rs` has its functions, and `engine.rs`
//! their effect. The device does all work as late as it may, in a wait for it, so a missing wait shows. Under Miri (`cargo xtask sanitize miri`),
//! which cannot run loom, the models have the threads and locks of the library.
//!
//! The assertion of a model is printed from the first order in which it does not hold; a deadlock is `deadlock; threads = …`, an endless loop
//! `Model exceeded maximum number of branches`, and wrong use of CUDA an assertion at the end (`Engine::misuse`). loom tries the orders in the same
//! sequence each time:
//!
//! ```text
//! cargo test -p cuda-um-loom a_guard_that_waits -- --nocapture
//! LOOM_LOG=trace …         each switch of threads, for a test that uses `checker::model` (`preempted` installs no logger)
//! ```
//!
//! It cannot find orders of more preemptions, threads or calls. loom sees only the locks and atomics of `crate::sync`: an `Arc`, a `OnceLock`, or
//! an atomic of the standard library is one step. If a thread loads an atomic and then changes it, loom may miss orders in which another thread
//! loads it before (see `StreamInner::completed_to`).
//!
//! A new model ends with no work in flight and no deferred free, because the engine is gone when its closure returns. A lock in a static is
//! declared with `sync::global!`, and the order of threads must not depend on a clock. A function of CUDA that no model calls yet goes into
//! `table.rs`.

pub(crate) mod checker;
pub(crate) mod engine;
mod exports;
mod frees;
mod host_and_device;
mod in_flight;
pub(crate) mod machine;
mod process_end;
mod streams;
mod table;
