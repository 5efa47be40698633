//! Simulators, each with one runtime for all backends over it.

use std::sync::{Arc, Weak};

use cuda_um::Runtime;
use cuda_um::fork::PerProcess;
use cuda_um::sys::Table;
use cuda_um_sim::Sim;
use cuda_um_sys::locks::Mutex;

use crate::error::Result;

/// A simulator and its runtime, which live as long as a backend over them or a buffer of one.
#[derive(Debug)]
pub(crate) struct Simulated {
    pub(crate) sim: Sim,
    pub(super) runtime: Runtime,
}

/// The simulators of the live backends, by the address of the table of functions. Only the one that is looked for is borrowed: a temporary
/// handle to another one could be its last, and would end it late and on this thread.
static OPEN: PerProcess<Open> = PerProcess::new(Open::default);

type Open = Mutex<Vec<(usize, Weak<Simulated>)>>;

impl Simulated {
    /// Opens the runtime over a simulator, or returns the open one.
    pub(super) fn open(sim: Sim) -> Result<Arc<Self>> {
        let table = sim.table();
        let runtime = Runtime::from_table(Arc::clone(&table))?;
        let new = Arc::new(Self { runtime, sim });
        let mut open = OPEN.get().lock();
        if let Some(known) = known(&open, &table) {
            return Ok(known);
        }
        open.retain(|(_, known)| known.strong_count() > 0);
        open.push((Arc::as_ptr(&table).addr(), Arc::downgrade(&new)));
        Ok(new)
    }

    /// The simulator behind a runtime, if a backend has opened it.
    pub(super) fn find(runtime: &Runtime) -> Option<Arc<Self>> {
        known(&OPEN.get().lock(), runtime.table())
    }
}

fn known(open: &[(usize, Weak<Simulated>)], table: &Arc<Table>) -> Option<Arc<Simulated>> {
    let table = Arc::as_ptr(table).addr();
    let mut of_table = open.iter().filter(|(known, _)| *known == table);
    of_table.find_map(|(_, known)| known.upgrade())
}
