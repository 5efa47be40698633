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
    #[path = "../../../src/context/tracked.rs"]
    pub(crate) mod tracked;
    #[path = "../../../src/context/tracker.rs"]
    pub(crate) mod tracker;

    /// Every wait works.
    pub(crate) mod drain {
        use crate::context::tracker::Use;
        use crate::error::Result;

        pub(crate) fn settle(uses: &[Use]) -> (bool, Result<()>) {
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
