//! The clock: the wall clock, or the simulator's virtual clock.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The source of times. A clone is the same clock.
#[derive(Clone)]
pub struct Clock {
    now: Arc<dyn Fn() -> Duration + Send + Sync>,
    is_virtual: bool,
}

impl Clock {
    /// The wall clock, from now on.
    #[must_use]
    pub fn wall() -> Self {
        let start = Instant::now();
        Self::of(move || start.elapsed())
    }

    /// A clock that counts all time, as the wall clock does.
    #[must_use]
    pub fn of(now: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self {
            now: Arc::new(now),
            is_virtual: false,
        }
    }

    /// A simulator's clock. It does not count the host's own work, so the values that need it stay built-in.
    #[must_use]
    pub fn virtual_time(now: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self {
            is_virtual: true,
            ..Self::of(now)
        }
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Duration {
        (self.now)()
    }

    /// True if times are predictions of a simulator.
    #[must_use]
    pub fn is_virtual(&self) -> bool {
        self.is_virtual
    }

    /// What a time of this clock is, for the source of a model.
    #[must_use]
    pub fn how(&self) -> &'static str {
        match self.is_virtual {
            true => "PREDICTED by a simulator's clock",
            false => "measured",
        }
    }

    /// The time of `work`.
    pub(super) fn time<E>(&self, work: impl FnOnce() -> Result<(), E>) -> Result<Duration, E> {
        let start = self.now();
        work()?;
        Ok(self.now().saturating_sub(start))
    }

    /// The average time of `work` over `repeats` runs in a row.
    pub(super) fn time_each<E>(
        &self,
        repeats: usize,
        mut work: impl FnMut() -> Result<(), E>,
    ) -> Result<Duration, E> {
        let all = self.time(|| (0..repeats).try_for_each(|_| work()))?;
        Ok(all.div_f64(repeats.max(1) as f64))
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clock")
            .field("is_virtual", &self.is_virtual)
            .finish_non_exhaustive()
    }
}
