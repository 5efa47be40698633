//! Measures the values of a cost model on the local machine: see "Calibrating" in docs/measuring.md.
//!
//! `um_kernels::calibrate` measures the values that decide placements. This module measures the others by raw calls, in the same
//! session: every value comes from times of complete pieces of work.

mod copies;
mod faults;
mod host;
mod managed;

use crate::clock::Clock;
use crate::raw::Raw;
pub use um_kernels::calibrate::{Calibration, NOT_ON_A_VIRTUAL_CLOCK, Plan};

use anyhow::{Context, Result};
use cuda_um::Runtime;
use cuda_um::sys::Table;
use std::rc::Rc;
use std::sync::Arc;
use um_kernels::calibrate::Session;

/// Values that always stay built-in: parts of the host's first access and of its writes, the costs of graphs, and those between two devices.
pub const NEVER_MEASURED: &[&str] = &[
    "host_map_page_us",
    "host_cold_page_us",
    "host_discarded_page_us",
    "host_write_bytes_per_s",
    "graph_capture_node_us",
    "graph_capture_us",
    "graph_instantiate_node_us",
    "graph_instantiate_us",
    "graph_kernel_us",
    "graph_launch_us",
    "graph_params_us",
    "graph_start_us",
    "peer_us",
    "peer_prefetch_us",
    "peer_bytes_per_s",
    "peer_prefetch_bytes_per_s",
    "peer_fault_bytes_per_s",
    "peer_duplicate_bytes_per_s",
];

type Step = fn(&mut Session, &Rc<Raw>) -> Result<()>;

/// The order matters: later steps subtract values of earlier ones.
const STEPS: &[(&str, Step)] = &[
    ("calls", host::calls),
    ("allocations", host::allocations),
    ("copies inside the device", copies::inside),
    ("copies, pageable", copies::pageable),
    ("prefetches", managed::prefetches),
    ("fresh memory on the device", managed::populates),
    ("advice", managed::advice),
    ("faults", faults::faults),
];

/// Measures on device 0 with the given table of CUDA's functions; `tell` gets the name of each step.
pub fn calibrate(
    table: &Arc<Table>,
    clock: Clock,
    plan: Plan,
    tell: &mut dyn FnMut(&'static str),
) -> Result<Calibration> {
    let runtime = Runtime::from_table(Arc::clone(table))?;
    let device = runtime.device(0).context("no GPU to calibrate")?;
    let mut session = Session::new(&device, plan, &clock.into())?;
    let others = session.model.source.clone();
    session.measure(tell)?;
    let raw = Raw::open(table, false)?;
    for (name, step) in STEPS {
        tell(name);
        step(&mut session, &raw).with_context(|| format!("measuring {name}"))?;
    }
    let source = format!(
        "cargo xtask calibrate: {}, CUDA {}, {} with pieces of {} MiB",
        device.name(),
        runtime.version(),
        session.clock.how(),
        plan.large >> 20,
    );
    let mut calibration = session.end(source);
    let built_in = calibration.built_in();
    if !built_in.is_empty() {
        let rest = format!("; others {others}: {}", built_in.join(", "));
        calibration.model.source.push_str(&rest);
    }
    Ok(calibration)
}
