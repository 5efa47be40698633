//! Modules and their kernels, as the state holds them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::kernel::Twin;
use crate::ptx::{Entry, Ptx};

/// A loaded module.
#[derive(Debug)]
pub(crate) struct Module {
    pub(super) device: usize,
    pub(super) ptx: Ptx,
    pub(crate) functions: parking_lot::Mutex<Vec<usize>>,
    /// Launches of its kernels that have not ended.
    pub(super) launches: AtomicUsize,
}

/// A launch that has not ended: counted from the enqueuing until its kernel has run, or was skipped.
pub(super) struct Pending(Arc<Module>);

impl Pending {
    pub(super) fn of(module: &Arc<Module>) -> Pending {
        module.launches.fetch_add(1, Ordering::Relaxed);
        Pending(module.clone())
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.0.launches.fetch_sub(1, Ordering::Release);
    }
}

/// A kernel of a module, with its CPU reference.
pub(crate) struct Function {
    /// It runs only on streams of its module's device.
    pub(super) module: Arc<Module>,
    pub(crate) entry: Entry,
    /// Of the virtual architecture that the PTX names: 50 for `sm_50`.
    pub(crate) ptx_target: u32,
    pub(crate) reference: Twin,
    /// The most dynamic shared memory of a launch, besides the static.
    pub(crate) dynamic_shared: parking_lot::Mutex<u32>,
}

/// Shape of a launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LaunchShape {
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared_bytes: u32,
}
