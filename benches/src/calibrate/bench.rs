//! The machine under test, and its samples.

use crate::clock::Clock;
use crate::data;
use crate::raw::Raw;
use crate::stats::Stats;
use anyhow::{Context, Result, ensure};
use cuda_um::{Device, Stream};
use cuda_um_cost::CostModel;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

/// Size of a piece of work that shows fixed costs.
pub(super) const SMALL: usize = 4 << 10;

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

/// The machine under test.
pub(super) struct Bench {
    pub(super) device: Device,
    pub(super) stream: Stream,
    pub(super) raw: Rc<Raw>,
    pub(super) clock: Clock,
    pub(super) plan: Plan,
    pub(super) model: CostModel,
    /// Keys of the measured values.
    pub(super) measured: BTreeSet<&'static str>,
    pub(super) notes: Vec<String>,
}

impl Bench {
    pub(super) fn simulated(&self) -> bool {
        self.clock.is_simulated()
    }

    /// Number of samples for work on this number of bytes.
    pub(super) fn rounds(&self, bytes: usize) -> usize {
        match bytes < self.plan.large {
            true => self.plan.small_rounds,
            false => self.plan.rounds,
        }
    }

    /// The median of samples in seconds, after one sample that is not counted.
    pub(super) fn median(
        &self,
        bytes: usize,
        mut sample: impl FnMut(u64) -> Result<Duration>,
    ) -> Result<f64> {
        sample(0)?;
        let times = (1..=self.rounds(bytes) as u64)
            .map(|round| Ok(sample(round)?.as_secs_f64()))
            .collect::<Result<Vec<f64>>>()?;
        Ok(Stats::of(&times).context("no samples")?.median)
    }

    /// Stores a measured time, or a note if it is invalid.
    pub(super) fn time(&mut self, key: &'static str, seconds: f64) {
        self.take(key, seconds * 1e6);
    }

    /// Stores a measured rate, or a note if it is invalid.
    pub(super) fn rate(&mut self, key: &'static str, bytes_per_second: f64) {
        self.take(key, bytes_per_second);
    }

    pub(super) fn take(&mut self, key: &'static str, value: f64) {
        match self.model.set(key, value) {
            Ok(()) => drop(self.measured.insert(key)),
            Err(error) => self.note(key, &error.to_string()),
        }
    }

    /// Notes the reason why a value was not measured.
    pub(super) fn note(&mut self, name: &str, why: &str) {
        self.notes.push(format!("{name} was not measured: {why}"));
    }

    pub(super) fn launch(&self) -> f64 {
        self.model.launch.as_secs_f64()
    }

    pub(super) fn kernel(&self) -> f64 {
        self.model.kernel.as_secs_f64()
    }

    pub(super) fn enqueue(&self) -> f64 {
        self.model.enqueue.as_secs_f64()
    }
}

/// Bytes a second, from the times of two sizes.
pub(super) fn slope(small: (usize, f64), large: (usize, f64)) -> f64 {
    (large.0 - small.0) as f64 / (large.1 - small.1)
}

/// Checks that a result is `factor` times its source.
pub(super) fn verify(found: &[f32], source: &[f32], factor: f32) -> Result<()> {
    let wrong = data::differences(found, source, factor);
    ensure!(
        found.len() == source.len() && wrong == 0,
        "{wrong} of {} elements arrived wrong",
        source.len()
    );
    Ok(())
}

/// Fresh data.
pub(super) fn fresh(bytes: usize, round: u64) -> Vec<f32> {
    let mut elements = vec![0.0; bytes / size_of::<f32>()];
    data::fill(&mut elements, round);
    elements
}
