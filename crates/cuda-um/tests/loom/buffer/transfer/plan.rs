//! How the models' copies are cut: each unit is a piece.

use super::request::Staged;

pub(super) struct Plan {
    pub(super) bounds: Vec<usize>,
    pub(super) threads: usize,
}

impl Plan {
    pub(super) fn new(copy: &Staged<'_>, _chunk_bytes: usize, threads: usize) -> Self {
        let starts = (0..copy.bytes).step_by(copy.unit_bytes);
        let bounds: Vec<usize> = starts.chain([copy.bytes]).collect();
        Self {
            threads: threads.min(bounds.len() - 1),
            bounds,
        }
    }

    pub(super) fn pieces(&self) -> usize {
        self.bounds.len() - 1
    }
}
