//! The rows of each device.

use std::ops::Range;
use std::sync::Arc;

use crate::backend::CudaBackend;
use crate::error::{CudaError, Result};

/// The share of each device in the rows of a [`Sharded`](super::Sharded). Shares are rounded to whole rows.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[non_exhaustive]
pub enum Split<'a> {
    /// As many rows for each device; they differ by one row at most.
    #[default]
    Even,
    /// Rows in proportion to these numbers, one for each device: finite, at least 0, and one of them above 0. A weight of 0 is an empty shard.
    Weights(&'a [f64]),
    /// Rows in proportion to the free memory of each device at the time of the call.
    FreeMemory,
}

impl Split<'_> {
    /// A weight for each device.
    pub(super) fn weights(self, backends: &[CudaBackend]) -> Result<Vec<f64>> {
        check_devices(backends)?;
        let weights = match self {
            Self::Even => vec![1.0; backends.len()],
            Self::Weights(weights) => weights.to_vec(),
            Self::FreeMemory => {
                let free = |(number, backend): (usize, &CudaBackend)| {
                    let memory = backend.device().memory_info();
                    let memory = memory.map_err(|cause| super::failed(number, backend, cause));
                    // Without any, the error is that of the allocation.
                    memory.map(|memory| memory.free_bytes.max(1) as f64)
                };
                backends
                    .iter()
                    .enumerate()
                    .map(free)
                    .collect::<Result<_>>()?
            }
        };
        check_weights(&weights, backends.len())?;
        Ok(weights)
    }
}

fn check_devices(backends: &[CudaBackend]) -> Result<()> {
    let refuse = |value: String, reason: &str| {
        Err(CudaError::InvalidArgument {
            what: "the devices of Sharded",
            value,
            reason: reason.to_owned(),
        })
    };
    if backends.is_empty() {
        return refuse("none".to_owned(), "give at least one backend");
    }
    for (number, backend) in backends.iter().enumerate() {
        if backends[..number]
            .iter()
            .any(|other| same_device(other, backend))
        {
            let value = format!("device {} twice", backend.device().ordinal());
            return refuse(value, "a device has one shard: give each device once");
        }
    }
    Ok(())
}

/// Whether two backends have one device. Two runtimes over one driver have the same devices.
fn same_device(one: &CudaBackend, other: &CudaBackend) -> bool {
    let (one, other) = (one.device(), other.device());
    let tables = [one, other].map(|device| device.runtime().table().clone());
    one.ordinal() == other.ordinal() && Arc::ptr_eq(&tables[0], &tables[1])
}

fn check_weights(weights: &[f64], expected: usize) -> Result<()> {
    let refuse = |value: String| {
        Err(CudaError::InvalidArgument {
            what: "the weights of Sharded",
            value,
            reason: "each is a finite number of at least 0, and one of them is above 0".to_owned(),
        })
    };
    if weights.len() != expected {
        return Err(CudaError::LengthMismatch {
            what: "weights for devices",
            expected,
            found: weights.len(),
        });
    }
    let is_share = |weight: &f64| weight.is_finite() && *weight >= 0.0;
    if let Some(wrong) = weights.iter().position(|weight| !is_share(weight)) {
        return refuse(format!("{}, of shard {wrong}", weights[wrong]));
    }
    if weights.iter().all(|weight| *weight == 0.0) {
        return refuse("all 0".to_owned());
    }
    Ok(())
}

/// The rows of each device, for weights that were checked.
pub(super) fn ranges(rows: usize, weights: &[f64]) -> Vec<Range<usize>> {
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
