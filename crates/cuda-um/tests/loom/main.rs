//! Every order in which threads can come to the in-flight tracker, to a pool, to the ring that stages copies, to the thread that frees and to
//! the gate of devices without concurrent managed access.
//!
//! # What it proves
//!
//! Each test is a model: a few threads, and assertions that must hold in every order of their locks and atomics. `checker::model` tries all
//! orders, `checker::preempted` those in which threads are preempted at most two or three times, because all orders would be millions.
//!
//! # How it works
//!
//! The modules are those of the library, compiled here once more with `#[path]`. Below them, `sync.rs` has loom's locks in place of the library's,
//! and small files play CUDA, which cannot be called here: `driver.rs` does each copy as late as it may; `context/` has devices, streams and events,
//! `resource/` memory as addresses with owners.
//!
//! Read `checker.rs`, then `in_flight.rs`, which has the smallest models. The others are `frees.rs`, `host_and_device.rs`,
//! `resource/pool/free_blocks.rs`, `resource/pool/whole.rs`, `buffer/transfer/staging.rs` and `buffer/transfer/workers_alone.rs`.
//!
//! Under Miri (`cargo xtask sanitize miri`), which cannot run loom, the models have the threads and locks of the standard library: Miri looks for
//! undefined behaviour in one order for each of its seeds.
//!
//! # When it fails
//!
//! The assertion of the model is printed, from the first order in which it does not hold; a deadlock is `deadlock; threads = …`, and a thread that
//! waits in a loop `Model exceeded maximum number of branches`. loom tries the orders in the same sequence each time, so the same command repeats
//! the failure:
//!
//! ```text
//! cargo test -p cuda-um --test loom a_guard_that_waits -- --nocapture
//! LOOM_LOG=trace …         each switch of threads, for a test that uses `checker::model` (`preempted` installs no logger)
//! ```
//!
//! For a test that uses `preempted`, print in the model or in the module: the last lines before the panic are those of the failing order.
//!
//! # What it cannot find
//!
//! More preemptions than the bound, and more threads or calls than the model has. Errors in the files that are replaced here: the real streams,
//! events, devices and CUDA itself (`model` and `stress` run them). loom sees only its own locks and atomics, which the modules import
//! from `crate::sync`: an `Arc`, a `OnceLock`, or an atomic of the standard library is one step. Locks that a thread holds while it waits are not
//! checked here (`sync::assert_no_lock_held` does nothing); debug builds of the library check them.
//!
//! # To add
//!
//! A model of a module that is here: a test in one of the files above, in `checker::model` if it takes seconds, otherwise in `preempted`. Another
//! module of the library: a `#[path]` line below. It must take locks, atomics and threads from `crate::sync`; what it imports besides is compiled
//! here too, or played as small as possible. docs/reliability.md counts the models.
#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    reason = "of the modules of the library a part is used"
)]
#![allow(
    clippy::wrong_self_convention,
    reason = "what the library exports, the lint leaves alone"
)]

mod checker;
mod frees;
mod host_and_device;
mod in_flight;
mod raw_memory;
mod sync;
#[path = "../../src/telemetry.rs"]
#[allow(unused_imports, unused_macros, reason = "no span is entered here")]
mod telemetry;

#[path = "../../src/element.rs"]
mod element;
#[path = "../../src/label.rs"]
mod label;

mod error {
    pub(crate) use cuda_um::{Error, Result};
}

/// No process is forked here.
mod fork {
    #[derive(Clone, Copy, Default)]
    pub(crate) struct Origin;

    impl Origin {
        pub(crate) fn here() -> Self {
            Self
        }

        pub(crate) fn is_inherited(self) -> bool {
            false
        }

        pub(crate) fn check(self, _: &'static str) -> crate::error::Result<()> {
            Ok(())
        }
    }
}

mod driver;

mod context {
    pub(crate) mod device;
    pub(crate) mod event;
    #[path = "../../../src/context/exclusion.rs"]
    pub(crate) mod exclusion;
    #[path = "../../../src/context/reclaim.rs"]
    pub(crate) mod reclaim;
    #[path = "../../../src/context/slot.rs"]
    pub(crate) mod slot;
    pub(crate) mod stream;
    #[path = "../../../src/context/streams.rs"]
    pub(crate) mod streams;
    #[path = "../../../src/context/tracked.rs"]
    pub(crate) mod tracked;
    #[path = "../../../src/context/tracker.rs"]
    pub(crate) mod tracker;

    pub(crate) mod driver_state {
        pub(crate) trait Pending {
            fn is_known_idle(&self) -> bool;
        }
    }

    /// Every wait works.
    pub(crate) mod drain {
        use crate::context::tracker::Use;
        use crate::error::Result;

        pub(crate) fn drain(uses: &[Use]) -> (bool, Result<()>) {
            (true, uses.iter().try_for_each(Use::wait))
        }
    }
}

mod resource {
    pub(crate) mod allocation;
    #[path = "../../../src/resource/block.rs"]
    pub(crate) mod block;
    pub(crate) mod memory_resource;
    pub(crate) mod kind {
        pub(crate) use super::memory_resource::MemoryKind;
    }
    pub(crate) mod pool;
}

mod buffer {
    pub(crate) mod transfer;
}
