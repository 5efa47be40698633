//! The device under test, its samples, and the values so far.

use super::clock::Clock;
use super::error::{CalibrateError, Result};
use crate::Scale;
use cuda_um::cost::CostModel;
use cuda_um::{Device, Stream};
use std::collections::BTreeSet;
use std::time::Duration;
use thiserror::Error;

/// The result of a step: every error is kept, and gets the step's name.
pub(super) type Outcome<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// The size of a piece of work that shows fixed costs, in bytes.
pub const SMALL: usize = 4 << 10;
/// The size of a piece of work that shows rates, in bytes. At most two pieces exist at a time: less than 64 MiB of each kind of memory.
pub const LARGE: usize = 16 << 20;
/// The samples of large and of small work: less than a second.
const ROUNDS: usize = 5;
const SMALL_ROUNDS: usize = 11;

/// The first compute capability that the kernel runs on.
const FIRST_WITH_KERNEL: (u32, u32) = (6, 0);

/// A calibration: the device under test, and the values so far.
#[derive(Debug)]
pub struct Session {
    /// The device.
    pub device: Device,
    /// The clock.
    pub clock: Clock,
    /// The values so far.
    pub model: CostModel,
    /// The keys of the measured values.
    pub measured: BTreeSet<&'static str>,
    pub(super) stream: Stream,
    /// The kernel `output = factor × input`; `None` on a device that is older than the kernel.
    pub(super) scale: Option<Scale>,
    /// The host's seconds for a launch and for another call, with the work of the library.
    pub(super) launch: f64,
    pub(super) enqueue: f64,
}

impl Session {
    /// Begins with the built-in model for the device.
    ///
    /// # Errors
    ///
    /// [`CalibrateError::Step`] if the device has no stream, or refuses the kernel.
    pub fn new(device: &Device, clock: &Clock) -> Result<Self> {
        let failed = |source| CalibrateError::Step {
            step: "the setup",
            source,
        };
        let capabilities = device.capabilities();
        let has_kernel = capabilities.compute_capability >= FIRST_WITH_KERNEL;
        let scale = has_kernel.then(|| Scale::load(device)).transpose();
        let model = CostModel::of_gpu(
            device.name(),
            capabilities.compute_capability,
            capabilities.pageable_uses_host_page_tables,
        );
        Ok(Self {
            stream: device
                .create_stream()
                .map_err(|error| failed(error.into()))?,
            scale: scale.map_err(|error| failed(error.into()))?,
            device: device.clone(),
            clock: clock.clone(),
            model,
            measured: BTreeSet::new(),
            launch: 0.0,
            enqueue: 0.0,
        })
    }

    /// The median of samples in seconds, after one sample that is not counted. The sample gets its number.
    ///
    /// # Errors
    ///
    /// The first error of a sample.
    pub fn median<E>(
        &self,
        bytes: usize,
        mut sample: impl FnMut(u64) -> std::result::Result<Duration, E>,
    ) -> std::result::Result<f64, E> {
        let rounds = if bytes < LARGE { SMALL_ROUNDS } else { ROUNDS };
        sample(0)?;
        let times = (1..=rounds as u64).map(sample);
        let mut times = times.collect::<std::result::Result<Vec<_>, E>>()?;
        times.sort_unstable();
        Ok(times[rounds / 2].as_secs_f64())
    }

    /// Stores a measured time, unless it is invalid.
    pub fn time(&mut self, key: &'static str, seconds: f64) {
        self.rate(key, seconds * 1e6);
    }

    /// Stores a measured rate in bytes a second, unless it is invalid.
    pub fn rate(&mut self, key: &'static str, bytes_per_second: f64) {
        match self.model.set(key, bytes_per_second) {
            Ok(()) => drop(self.measured.insert(key)),
            Err(error) => self.note(key, &error.to_string()),
        }
    }

    /// Logs the reason why a value was not measured.
    pub fn note(&self, key: &str, why: &str) {
        tracing::debug!("{key} was not measured: {why}");
    }
}

/// Bytes a second, from the times of two sizes.
#[must_use]
pub fn slope(small: (usize, f64), large: (usize, f64)) -> f64 {
    (large.0 - small.0) as f64 / (large.1 - small.1)
}

/// A copy or kernel with a wrong result.
#[derive(Debug, Error)]
#[error("{wrong} of {elements} elements are wrong")]
pub struct Wrong {
    wrong: usize,
    elements: usize,
}

/// Checks that a result is `factor` times its source.
///
/// # Errors
///
/// The number of wrong elements.
pub fn verify(found: &[f32], source: &[f32], factor: f32) -> std::result::Result<(), Wrong> {
    let pairs = found.iter().zip(source);
    let wrong = pairs.filter(|(found, source)| **found != **source * factor);
    let wrong = wrong.count() + found.len().abs_diff(source.len());
    let elements = source.len();
    match wrong {
        0 => Ok(()),
        _ => Err(Wrong { wrong, elements }),
    }
}

/// Numbers from 1 to below 2, different at each place and in each round.
#[must_use]
pub fn fresh(bytes: usize, round: u32) -> Vec<f32> {
    let mixed = |place: u32| place.wrapping_add(round).wrapping_mul(0x9E37_79B1);
    let number = |place| f32::from_bits((mixed(place) >> 9) | 0x3F80_0000);
    (0..(bytes / size_of::<f32>()) as u32).map(number).collect()
}
