//! One figure of a model, and what it may be.

use crate::CostError;
use std::ops::RangeInclusive;
use std::time::Duration;

/// The longest time that a model may hold: a quarter of an hour. No single operation takes that long.
pub(crate) const MOST_MICROSECONDS: f64 = 1e9;

/// The rates that a model may hold, in bytes a second. From 1 MB/s on, no count of bytes takes longer than a `Duration` can say.
pub(crate) const RATES: RangeInclusive<f64> = 1e6..=1e16;

/// One figure of a [`CostModel`](crate::CostModel).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Figure {
    /// What one operation takes.
    Time(Duration),
    /// Bytes a second.
    Rate(f64),
}

impl Figure {
    /// The number as it stands in JSON: microseconds, or bytes a second.
    pub fn number(self) -> f64 {
        match self {
            Figure::Time(time) => time.as_nanos() as f64 / 1e3,
            Figure::Rate(rate) => rate,
        }
    }

    /// Refuses what no machine can have.
    pub(crate) fn check(self, field: &str) -> Result<(), CostError> {
        match self {
            Figure::Time(_) => time(field, self.number()).map(drop),
            Figure::Rate(value) => rate(field, value).map(drop),
        }
    }
}

/// A time out of microseconds, to the nanosecond.
pub(crate) fn time(field: &str, microseconds: f64) -> Result<Duration, CostError> {
    if !(0.0..=MOST_MICROSECONDS).contains(&microseconds) {
        return Err(CostError::Time {
            field: field.to_owned(),
            microseconds,
        });
    }
    Ok(Duration::from_nanos((microseconds * 1e3).round() as u64))
}

/// A rate, if it is one.
pub(crate) fn rate(field: &str, bytes_per_second: f64) -> Result<f64, CostError> {
    if !RATES.contains(&bytes_per_second) {
        return Err(CostError::Rate {
            field: field.to_owned(),
            bytes_per_second,
        });
    }
    Ok(bytes_per_second)
}
