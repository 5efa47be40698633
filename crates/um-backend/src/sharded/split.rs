//! The rows of each device.

use std::ops::Range;
use std::sync::Arc;

use crate::backend::CudaBackend;
use crate::error::{CudaError, Result, invalid};

/// The share of each device in the rows of a [`Sharded`](super::Sharded). Shares are rounded to whole rows.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[non_exhaustive]
pub enum Split<'a> {
    /// As many rows for each device; they differ by one row at most.
    #[default]
    Even,
    /// Rows in proportion to these numbers, one for each device: finite, at least 0, and one of them above 0. A weight of 0 is an empty shard.
    Weights(&'a [f64]),
}

impl Split<'_> {
    /// The rows of each device.
    pub(super) fn ranges(self, backends: &[CudaBackend], rows: usize) -> Result<Vec<Range<usize>>> {
        check_devices(backends)?;
        let weights = match self {
            Self::Even => vec![1.0; backends.len()],
            Self::Weights(weights) => weights.to_vec(),
        };
        check_weights(&weights, backends.len())?;
        Ok(ranges(rows, &weights))
    }
}

fn check_devices(backends: &[CudaBackend]) -> Result<()> {
    const WHAT: &str = "the devices of Sharded";
    if backends.is_empty() {
        return Err(invalid(WHAT, "none", "give at least one backend"));
    }
    // Two runtimes over one driver have the same devices.
    let device = |of: &CudaBackend| {
        (
            of.device().ordinal(),
            Arc::as_ptr(of.device().runtime().table()),
        )
    };
    for (number, backend) in backends.iter().enumerate() {
        let mut others = backends[..number].iter();
        if others.any(|other| device(other) == device(backend)) {
            let value = format!("device {} twice", backend.device().ordinal());
            let reason = "a device has one shard: give each device once";
            return Err(invalid(WHAT, value, reason));
        }
    }
    Ok(())
}

fn check_weights(weights: &[f64], expected: usize) -> Result<()> {
    if weights.len() != expected {
        return Err(CudaError::LengthMismatch {
            what: "weights for devices",
            expected,
            found: weights.len(),
        });
    }
    let is_share = |weight: &f64| weight.is_finite() && *weight >= 0.0;
    let value = match weights.iter().position(|weight| !is_share(weight)) {
        Some(wrong) => format!("{}, of shard {wrong}", weights[wrong]),
        None if weights.iter().all(|weight| *weight == 0.0) => "all 0".to_owned(),
        None => return Ok(()),
    };
    let reason = "each is a finite number of at least 0, and one of them is above 0";
    Err(invalid("the weights of Sharded", value, reason))
}

fn ranges(rows: usize, weights: &[f64]) -> Vec<Range<usize>> {
    // In proportion to the largest one: the sum of large weights would be infinite.
    let largest = weights.iter().copied().fold(0.0, f64::max);
    let total: f64 = weights.iter().map(|weight| weight / largest).sum();
    let last = weights.iter().rposition(|weight| *weight > 0.0);
    let (mut sum, mut start) = (0.0, 0);
    let range = |(number, weight): (usize, &f64)| {
        sum += weight / largest;
        let end = match Some(number) < last {
            true => ((rows as f64 * (sum / total)).round() as usize).clamp(start, rows),
            false => rows,
        };
        std::mem::replace(&mut start, end)..end
    };
    weights.iter().enumerate().map(range).collect()
}
