//! What a run did.

use crate::{Slots, TransferKind};

/// What a run of a plan did, to be drawn beside it: [`Plan::svg_beside`](crate::Plan::svg_beside).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    /// The changes of the arena, in order. Each of them comes before the work of its step.
    pub changes: Vec<RunChange>,
    /// How long each step waited for transfers, in seconds. Empty if that was not measured.
    pub stall_seconds: Vec<f64>,
    /// The time of the pass in seconds.
    pub seconds: f64,
}

/// A change of the arena by a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunChange {
    /// The step, from 0 to the number of steps.
    pub step: usize,
    /// What was done.
    pub kind: TransferKind,
    /// The index of the buffer in [`Program::buffers`](crate::Program::buffers); `None` for a buffer that the program does not have.
    pub buffer: Option<usize>,
    /// The buffer's place. Empty for [`ReadInPlace`](TransferKind::ReadInPlace).
    pub slots: Slots,
}
