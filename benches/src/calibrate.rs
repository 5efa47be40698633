//! Measures the values of a cost model on the local machine: see "Calibrating" in docs/measuring.md.
//!
//! Every value comes from times of complete pieces of work: a fixed part from 4 KiB, a rate from the difference of two sizes.
//! The formulas are those of the simulator's clock, so a model that is measured on the simulator is equal to the simulator's
//! model.

mod copies;
mod faults;
mod host;
mod managed;

use crate::clock::Clock;
use crate::data;
use crate::raw::Raw;
use crate::stats::Stats;
use anyhow::{Context, Result, ensure};
use cuda_um::sys::Table;
use cuda_um::{Device, Runtime, Stream};
use cuda_um_cost::{CostModel, Link};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Size of a piece of work that shows fixed costs.
const SMALL: usize = 4 << 10;

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

/// The amount of measuring.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Size of a piece of work that shows rates. Only one such piece of managed memory exists at a time.
    pub large: usize,
    /// Samples of large work.
    pub rounds: usize,
    /// Samples of small work.
    pub small_rounds: usize,
}

impl Plan {
    /// 128 MiB, and medians of 9 or 31.
    pub const FULL: Plan = Plan {
        large: 128 << 20,
        rounds: 9,
        small_rounds: 31,
    };
    /// 16 MiB, and medians of 5 or 11.
    pub const QUICK: Plan = Plan {
        large: 16 << 20,
        rounds: 5,
        small_rounds: 11,
    };
}

/// The result of a calibration.
pub struct Calibration {
    /// The machine's model. Its source describes the measurement, and lists the values that were not measured.
    pub model: CostModel,
    /// The keys of values that were not measured; they have the built-in values for such a machine.
    pub built_in: Vec<&'static str>,
    /// The reasons for missing values.
    pub notes: Vec<String>,
}

/// The machine under test.
struct Bench {
    device: Device,
    stream: Stream,
    raw: Rc<Raw>,
    clock: Clock,
    plan: Plan,
    model: CostModel,
    /// Keys of the measured values.
    measured: BTreeSet<&'static str>,
    notes: Vec<String>,
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

impl Bench {
    fn simulated(&self) -> bool {
        self.clock.is_simulated()
    }

    /// Number of samples for work on this number of bytes.
    fn rounds(&self, bytes: usize) -> usize {
        match bytes < self.plan.large {
            true => self.plan.small_rounds,
            false => self.plan.rounds,
        }
    }

    /// The median of samples in seconds, after one sample that is not counted.
    fn median(&self, bytes: usize, mut sample: impl FnMut(u64) -> Result<Duration>) -> Result<f64> {
        sample(0)?;
        let times = (1..=self.rounds(bytes) as u64)
            .map(|round| Ok(sample(round)?.as_secs_f64()))
            .collect::<Result<Vec<f64>>>()?;
        Ok(Stats::of(&times).context("no samples")?.median)
    }

    /// Stores a measured time, or a note if it is invalid.
    fn time(&mut self, key: &'static str, seconds: f64) {
        self.take(key, seconds * 1e6);
    }

    /// Stores a measured rate, or a note if it is invalid.
    fn rate(&mut self, key: &'static str, bytes_per_second: f64) {
        self.take(key, bytes_per_second);
    }

    fn take(&mut self, key: &'static str, value: f64) {
        match self.model.set(key, value) {
            Ok(()) => drop(self.measured.insert(key)),
            Err(error) => self.note(key, &error.to_string()),
        }
    }

    /// Notes the reason why a value was not measured.
    fn note(&mut self, name: &str, why: &str) {
        self.notes.push(format!("{name} was not measured: {why}"));
    }

    fn launch(&self) -> f64 {
        self.model.launch.as_secs_f64()
    }

    fn kernel(&self) -> f64 {
        self.model.kernel.as_secs_f64()
    }

    fn enqueue(&self) -> f64 {
        self.model.enqueue.as_secs_f64()
    }
}

/// Bytes a second, from the times of two sizes.
fn slope(small: (usize, f64), large: (usize, f64)) -> f64 {
    (large.0 - small.0) as f64 / (large.1 - small.1)
}

/// Checks that a result is `factor` times its source.
fn verify(found: &[f32], source: &[f32], factor: f32) -> Result<()> {
    let wrong = data::differences(found, source, factor);
    ensure!(
        found.len() == source.len() && wrong == 0,
        "{wrong} of {} elements arrived wrong",
        source.len()
    );
    Ok(())
}

/// Fresh data.
fn fresh(bytes: usize, round: u64) -> Vec<f32> {
    let mut elements = vec![0.0; bytes / size_of::<f32>()];
    data::fill(&mut elements, round);
    elements
}
