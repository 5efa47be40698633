//! Measures the values of a cost model on the local machine: see "Calibrating" in docs/measuring.md.
//!
//! Every value comes from times of complete pieces of work: a fixed part from 4 KiB, a rate from the difference of two sizes.
//! The formulas are those of the simulator's clock, so a model that is measured on the simulator is equal to the simulator's
//! model.

mod bench;
mod copies;
mod faults;
mod host;
mod managed;

use crate::clock::Clock;
use crate::raw::Raw;
pub use bench::Plan;

use anyhow::{Context, Result};
use bench::Bench;
use cuda_um::Runtime;
use cuda_um::sys::Table;
use cuda_um_cost::{CostModel, Link};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Values that stay built-in on the simulator: its virtual clock does not include the host's own work.
pub const NOT_ON_A_VIRTUAL_CLOCK: &[&str] = &[
    "thread_wake_us",
    "host_copy_bytes_per_s",
    "staged_to_device_bytes_per_s",
    "staged_to_host_bytes_per_s",
];

/// Values that always stay built-in: parts of the host's first access and of its writes. Only the simulator's clock separates
/// them.
pub const NEVER_MEASURED: &[&str] = &[
    "host_map_page_us",
    "host_cold_page_us",
    "host_discarded_page_us",
    "host_write_bytes_per_s",
];

/// The result of a calibration.
pub struct Calibration {
    /// The machine's model. Its source describes the measurement, and lists the values that were not measured.
    pub model: CostModel,
    /// The keys of values that were not measured; they have the built-in values for such a machine.
    pub built_in: Vec<&'static str>,
    /// The reasons for missing values.
    pub notes: Vec<String>,
}

type Step = fn(&mut Bench) -> Result<()>;

/// The order matters: later steps subtract values of earlier ones.
const STEPS: &[(&str, Step)] = &[
    ("calls", host::calls),
    ("allocations", host::allocations),
    ("the host's threads", host::threads),
    ("kernels", copies::kernels),
    ("mapped memory", copies::mapped),
    ("copies, pinned and inside the device", copies::pinned),
    ("copies, pageable", copies::pageable),
    ("copies, staged", copies::staged),
    ("prefetches", managed::prefetches),
    ("fresh memory on the device", managed::populates),
    ("advice", managed::advice),
    ("faults", faults::faults),
];

/// Measures on device 0 with the given table of CUDA's functions; `tell` gets the name of each step.
///
/// # Errors
/// There is no device, CUDA reports an error, or a copy has a wrong result. A single value that makes no sense is a note, not
/// an error.
pub fn calibrate(
    table: &Arc<Table>,
    clock: Clock,
    plan: Plan,
    tell: &mut dyn FnMut(&str),
) -> Result<Calibration> {
    let runtime = Runtime::from_table(Arc::clone(table))?;
    let device = runtime.device(0).context("no GPU to calibrate")?;
    let capabilities = device.capabilities();
    let link = Link::of(
        capabilities.compute_capability,
        capabilities.pageable_uses_host_page_tables,
    );
    let mut bench = Bench {
        stream: device.stream()?,
        raw: Raw::open(table, false)?,
        device,
        clock,
        plan,
        model: CostModel::built_in(link),
        measured: BTreeSet::new(),
        notes: Vec::new(),
    };
    for (name, step) in STEPS {
        tell(name);
        step(&mut bench).with_context(|| format!("measuring {name}"))?;
    }
    let values = bench.model.values().into_iter();
    let built_in: Vec<_> = values
        .map(|(key, _)| key)
        .filter(|key| !bench.measured.contains(key))
        .collect();
    let how = match bench.simulated() {
        true => "PREDICTED by a simulator's clock",
        false => "measured",
    };
    bench.model.source = format!(
        "cargo xtask calibrate: {}, CUDA {}, {how} with pieces of {} MiB",
        bench.device.name(),
        runtime.version(),
        plan.large >> 20,
    );
    if !built_in.is_empty() {
        let rest = format!("; built in for {link:?}: {}", built_in.join(", "));
        bench.model.source.push_str(&rest);
    }
    Ok(Calibration {
        model: bench.model,
        built_in,
        notes: bench.notes,
    })
}
