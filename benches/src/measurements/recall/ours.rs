//! The buffers of our searches, and their verified samples.

use super::task::{DIM, K, SINGLE, Task};
use crate::Bench;
use crate::measure::Round;
use anyhow::{Context, Result};
use cuda_um::{Device, UnifiedBuffer, View};
use std::cell::RefCell;
use std::time::Duration;
use um_search::{SearchBuffers, TargetScalar};

/// The allowed error of a cosine if the targets are in half precision.
const HALF: f32 = 1e-3;

/// The buffers of our searches, and the latest results.
pub(super) struct Ours {
    asked: UnifiedBuffer<f32>,
    scores: UnifiedBuffer<f32>,
    best: UnifiedBuffer<u32>,
    found: Vec<f32>,
    places: Vec<u32>,
    /// The round in which the kernel without a filter searched, and its lists.
    unfiltered: Option<(u64, Lists)>,
}

/// Scores as bits, and indices.
type Lists = (Vec<u32>, Vec<u32>);

impl Ours {
    pub fn new(device: &Device, queries: usize) -> Result<Self> {
        Ok(Self {
            asked: UnifiedBuffer::zeroed(device, queries * DIM)?,
            scores: UnifiedBuffer::zeroed(device, queries * K)?,
            best: UnifiedBuffer::zeroed(device, queries * K)?,
            found: vec![0.0; queries * K],
            places: vec![0; queries * K],
            unfiltered: None,
        })
    }

    /// The time of one launch and the wait for it. The lists are compared with the CPU reference, and with those of the kernel
    /// without a filter if they are of the same targets in single precision.
    pub fn sample<T: TargetScalar>(
        &mut self,
        bench: &Bench,
        round: &mut Round<'_>,
        task: &RefCell<Task<'_>>,
        targets: View<'_, T>,
        launch: impl FnOnce(SearchBuffers<'_, T>) -> um_search::Result<()>,
    ) -> Result<Duration> {
        let (device, stream) = (&bench.device, &bench.stream);
        let mut task = task.borrow_mut();
        task.at(round)?;
        self.asked.copy_from_host(&task.queries)?;
        self.asked.prefetch_on(device, stream)?.require()?;
        self.scores.prefetch_on(device, stream)?.require()?;
        self.best.prefetch_on(device, stream)?.require()?;
        stream.synchronize()?;
        let buffers = SearchBuffers {
            queries: self.asked.view(..)?,
            targets,
            scores: self.scores.view_mut(..)?,
            indices: self.best.view_mut(..)?,
        };
        let mut launch = Some(|| launch(buffers));
        let time = round.clock.time(|| {
            launch.take().context("one launch")?()?;
            Ok(stream.synchronize()?)
        })?;
        self.scores.copy_to_host(&mut self.found)?;
        self.best.copy_to_host(&mut self.places)?;
        let single = size_of::<T>() == size_of::<f32>();
        let tolerance = if single { SINGLE } else { HALF };
        task.verify(round, &self.found, &self.places, tolerance)?;
        if let Some((number, lists)) = &self.unfiltered
            && *number == round.number
            && single
        {
            let holds = *lists == self.lists();
            round.verify_that(holds, "other lists than without a filter")?;
        }
        Ok(time)
    }

    /// Keeps the latest lists: those of the kernel without a filter.
    pub fn keep(&mut self, round: &Round<'_>) {
        self.unfiltered = Some((round.number, self.lists()));
    }

    fn lists(&self) -> Lists {
        let bits = self.found.iter().map(|score| score.to_bits());
        (bits.collect(), self.places.clone())
    }
}
