//! Every order in which threads can come to the in-flight tracker, to a pool, to the ring that stages copies, to the thread that frees and to
//! the gate of devices without concurrent managed access, tried by loom.
//!
//! The modules are those of the library, compiled here once more: `crate::sync` is loom's, and what calls CUDA is played, for CUDA cannot
//! be called here.
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

mod call;
mod checker;
mod device;
mod event;
mod frees;
mod host_and_device;
mod in_flight;
mod pool;
mod raw_memory;
mod stream;
mod sync;
#[path = "../../src/telemetry.rs"]
#[allow(unused_imports, unused_macros, reason = "no span is entered here")]
mod telemetry;
mod transfer;

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
    }
}

mod location {
    pub(crate) use cuda_um::Location;
}

#[path = "../../src/gate.rs"]
mod gate;
#[path = "../../src/reclaim.rs"]
mod reclaim;

#[path = "../../src/memory"]
mod memory {
    pub(crate) mod element;
    pub(crate) mod in_flight;
    pub(crate) mod label;
    #[path = "../../tests/loom/raw.rs"]
    pub(crate) mod raw;

    /// Every wait works.
    pub(crate) mod settle {
        use super::in_flight::Use;
        use crate::error::Result;

        pub(crate) fn settle(uses: &[Use]) -> (bool, Result<()>) {
            (true, uses.iter().try_for_each(Use::wait))
        }
    }
}
