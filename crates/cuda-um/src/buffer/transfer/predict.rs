//! Times of copies, predicted by the cost model.

use crate::buffer::transfer::plan::{copy_threads, is_for_driver, piece_bytes, threads_on_host};
use crate::buffer::transfer::{Direction, Transfers};
use crate::context::capability::Capabilities;
use cuda_um_cost::{CostModel, at_rate};
use std::time::Duration;

/// Whether copies between pageable memory and the device are left to the driver: it copies without staging, as fast as the link, and each
/// byte once. Only copies that fit into a piece are staged even so, because they then return without a wait.
pub(super) fn is_direct(capabilities: &Capabilities, model: &CostModel, to: Direction) -> bool {
    capabilities.reads_host_memory_in_place() && model.pageable_rate >= staged_rate(model, to)
}

fn staged_rate(model: &CostModel, direction: Direction) -> f64 {
    match direction {
        Direction::ToDevice => model.staged_to_device_rate,
        Direction::ToHost => model.staged_to_host_rate,
    }
}

impl Transfers {
    /// Predicts a copy between pageable memory and managed memory on the device.
    pub(crate) fn predict(
        &self,
        capabilities: &Capabilities,
        model: &CostModel,
        direction: Direction,
        bytes: usize,
    ) -> Duration {
        match is_direct(capabilities, model, direction) {
            true => model.copy + model.copy_managed + at_rate(bytes as u64, model.pageable_rate),
            false => self.predict_staged(model, direction, bytes),
        }
    }

    /// Predicts a staged copy.
    pub(super) fn predict_staged(
        &self,
        model: &CostModel,
        direction: Direction,
        bytes: usize,
    ) -> Duration {
        let whole = staged_rate(model, direction);
        let once = model.copy + model.copy_managed;
        if is_for_driver(direction, bytes) {
            return once + model.staging + at_rate(bytes as u64, model.pageable_rate);
        }
        // The thread alternates between copying and enqueuing to the device, and waits for all bytes to the host. The link is idle while the
        // thread copies the first piece, or the last one.
        let piece = match direction {
            Direction::ToDevice => piece_bytes(bytes).min(bytes.max(1)),
            Direction::ToHost => bytes.max(1),
        };
        let others = u32::try_from((bytes / piece).saturating_sub(1)).unwrap_or(u32::MAX);
        let alone = once
            + (model.copy_managed + model.event_record) * others
            + at_rate(bytes as u64, whole.min(model.host_copy_rate))
            + at_rate(piece as u64, model.pinned_rate);
        let threads = copy_threads(bytes, self.threads());
        if threads < 2 {
            return alone;
        }
        // The calling thread copies alone until the others are awake.
        let rate = whole.min(model.host_copy_rate * threads as f64);
        alone.min(model.staged + at_rate(bytes as u64, rate))
    }

    /// Predicts a copy within host memory.
    pub(crate) fn predict_on_host(&self, model: &CostModel, bytes: usize) -> Duration {
        let threads = threads_on_host(bytes, self.threads());
        let alone = at_rate(bytes as u64, model.host_copy_rate);
        if threads < 2 {
            return alone;
        }
        // The calling thread copies while the others wake.
        let late = model.thread_wake * (threads as u32 - 1) / threads as u32;
        alone.min(late + at_rate(bytes as u64, model.host_copy_rate * threads as f64))
    }
}
