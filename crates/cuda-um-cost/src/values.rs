//! The values by their JSON keys, and their allowed ranges.

use crate::{CostError, CostModel};
use std::ops::RangeInclusive;
use std::time::Duration;

/// From zero to an hour: no single operation takes longer.
const MICROSECONDS: RangeInclusive<f64> = 0.0..=3.6e9;
const TIMES: &str = "microseconds, from 0 to an hour";
/// From 1 MB/s on, the time for any number of bytes fits into a `Duration`.
const BYTES_PER_S: RangeInclusive<f64> = 1e6..=1e15;
const RATES: &str = "bytes a second, from 1e6 to 1e15";

impl CostModel {
    /// All values by their keys in JSON: times in microseconds (`launch_us`), then rates in bytes a second (`pinned_bytes_per_s`).
    pub fn values(&self) -> Vec<(&'static str, f64)> {
        let mut copy = self.clone();
        let times = copy.times();
        let times = times
            .into_iter()
            .map(|(key, time)| (key, time.as_nanos() as f64 / 1e3));
        let mut all: Vec<_> = times.collect();
        all.extend(copy.rates().into_iter().map(|(key, rate)| (key, *rate)));
        all
    }

    /// Sets the value of a key of [`values`](Self::values). Times are kept to the nanosecond.
    ///
    /// # Errors
    /// There is no such key, or no machine can have this value. The model is then unchanged.
    pub fn set(&mut self, key: &str, value: f64) -> Result<(), CostError> {
        if let Some((_, time)) = self.times().into_iter().find(|(name, _)| *name == key) {
            within(key, value, &MICROSECONDS, TIMES)?;
            *time = Duration::from_nanos((value * 1e3).round() as u64);
            return Ok(());
        }
        if let Some((_, rate)) = self.rates().into_iter().find(|(name, _)| *name == key) {
            within(key, value, &BYTES_PER_S, RATES)?;
            *rate = value;
            return Ok(());
        }
        Err(CostError::Unknown {
            field: key.to_owned(),
        })
    }

    /// Checks every value, because a program may have set a field to any value.
    ///
    /// # Errors
    /// The first value that no machine can have.
    pub fn check(&self) -> Result<(), CostError> {
        let mut copy = self.clone();
        let values = self.values().into_iter();
        values
            .map(|(key, value)| copy.set(key, value))
            .find(Result::is_err)
            .unwrap_or(Ok(()))
    }
}

fn within(
    key: &str,
    value: f64,
    range: &RangeInclusive<f64>,
    allowed: &'static str,
) -> Result<(), CostError> {
    if range.contains(&value) {
        return Ok(());
    }
    Err(CostError::Invalid {
        field: key.to_owned(),
        value: value.to_string(),
        allowed,
    })
}
