//! Times of copies, predicted by the cost model.

use crate::buffer::transfer::on_host::threads_on_host;
use crate::buffer::transfer::plan::{copy_threads, piece_bytes};
use crate::buffer::transfer::{Direction, Transfers};
use cuda_um_cost::{CostModel, at_rate};
use std::time::Duration;

impl Transfers {
    /// Predicts a staged copy between pageable memory and managed memory on the device.
    pub(crate) fn predict_staged(
        &self,
        model: &CostModel,
        direction: Direction,
        bytes: usize,
    ) -> Duration {
        let threads = copy_threads(bytes, self.threads());
        let piece = piece_bytes(bytes).min(bytes.max(1));
        // A single thread alternates between copying and enqueuing; of several threads, one enqueues while others copy.
        let enqueue = match threads {
            1 => (model.copy_managed + model.event_record) * bytes.div_ceil(piece) as u32,
            _ => model.copy_managed,
        };
        let whole = match direction {
            Direction::ToDevice => model.staged_to_device_rate,
            Direction::ToHost => model.staged_to_host_rate,
        };
        // The link is idle while the CPU copies one piece.
        model.copy
            + enqueue
            + wake(model, threads)
            + at_rate(
                bytes as u64,
                whole.min(model.host_copy_rate * threads as f64),
            )
            + at_rate(piece as u64, model.pinned_rate)
    }

    /// Predicts a copy within host memory.
    pub(crate) fn predict_on_host(&self, model: &CostModel, bytes: usize) -> Duration {
        let threads = threads_on_host(bytes, self.threads());
        wake(model, threads) + at_rate(bytes as u64, model.host_copy_rate * threads as f64)
    }
}

fn wake(model: &CostModel, threads: usize) -> Duration {
    match threads {
        ..2 => Duration::ZERO,
        _ => model.thread_wake,
    }
}
