//! The clock: the wall clock, or the simulator's virtual clock.

use cuda_um_sim::Sim;
use std::time::{Duration, Instant};

/// The source of times.
#[derive(Clone, Debug)]
pub enum Clock {
    /// The wall clock, since the instant.
    Wall(Instant),
    /// The simulator's virtual time: a prediction.
    Simulated(Sim),
}

impl Clock {
    /// The wall clock, from now on.
    pub fn wall() -> Self {
        Self::Wall(Instant::now())
    }

    /// The time.
    pub fn now(&self) -> Duration {
        match self {
            Self::Wall(start) => start.elapsed(),
            Self::Simulated(sim) => sim.now(),
        }
    }

    /// The time of `work`.
    pub fn time(&self, work: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<Duration> {
        let start = self.now();
        work()?;
        Ok(self.now().saturating_sub(start))
    }

    /// The average time of `work` over `repeats` runs in a row.
    pub fn time_each(
        &self,
        repeats: usize,
        mut work: impl FnMut() -> anyhow::Result<()>,
    ) -> anyhow::Result<Duration> {
        let all = self.time(|| (0..repeats).try_for_each(|_| work()))?;
        Ok(all.div_f64(repeats.max(1) as f64))
    }

    /// True if times are predictions of the simulator.
    pub fn is_simulated(&self) -> bool {
        matches!(self, Self::Simulated(_))
    }
}
