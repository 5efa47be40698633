//! Simulators, each with one runtime for all backends over it.

use std::sync::{Arc, Weak};

use cuda_um::Runtime;
use cuda_um_sim::Sim;
use parking_lot::Mutex;

use crate::error::Result;

/// A simulator and its runtime.
#[derive(Debug)]
pub(crate) struct Simulated {
    pub(crate) sim: Sim,
    pub(super) runtime: Runtime,
}

/// The simulators of the live backends. A runtime ends with its last backend and buffer.
static OPEN: Mutex<Vec<Weak<Simulated>>> = Mutex::new(Vec::new());

impl Simulated {
    /// Opens the runtime over a simulator, or returns the open one.
    pub(super) fn open(sim: Sim) -> Result<Arc<Self>> {
        let table = sim.table();
        let new = Arc::new(Self {
            runtime: Runtime::from_table(Arc::clone(&table))?,
            sim,
        });
        // Dropped after the lock: the last handle of a runtime calls CUDA.
        let live: Vec<_>;
        let mut open = OPEN.lock();
        live = open.iter().filter_map(Weak::upgrade).collect();
        let known = live
            .iter()
            .find(|known| Arc::ptr_eq(&known.sim.table(), &table));
        if let Some(known) = known {
            return Ok(Arc::clone(known));
        }
        open.retain(|known| known.strong_count() > 0);
        open.push(Arc::downgrade(&new));
        Ok(new)
    }

    /// The simulator of a runtime, if a backend opened the runtime over it.
    pub(super) fn find(runtime: &Runtime) -> Option<Arc<Self>> {
        let live: Vec<_> = OPEN.lock().iter().filter_map(Weak::upgrade).collect();
        let found = live.iter().find(|known| known.runtime.is_same(runtime))?;
        Some(Arc::clone(found))
    }
}
