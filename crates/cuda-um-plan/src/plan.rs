//! A plan: which transfers run between which steps, and the place of each buffer.

use crate::{Bound, Link, PlanBudget};
use serde::{Deserialize, Serialize};

/// The transfers of a pass, the places of the buffers, and the predicted time.
///
/// `Program::solve` makes a plan, and [`check`](Self::check) replays it. The plan of a cyclic program describes a pass in the
/// steady state: the [`resident`](Self::resident) buffers are in their places at the beginning and at the end. Before the first
/// pass they are transferred in.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub(crate) digest: u64,
    pub(crate) budget: PlanBudget,
    pub(crate) link: Link,
    pub(crate) resident: Vec<Resident>,
    pub(crate) steps: Vec<PlannedStep>,
    pub(crate) prediction: Prediction,
}

impl Plan {
    /// The digest of the program: [`Program::digest`](crate::Program::digest).
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// The budget. Each place ends within [`PlanBudget::slots`].
    pub fn budget(&self) -> PlanBudget {
        self.budget
    }

    /// The link for which the plan was made.
    pub fn link(&self) -> Link {
        self.link
    }

    /// The buffers that are in device memory at the beginning of each pass. Empty for a program with one pass.
    pub fn resident(&self) -> &[Resident] {
        &self.resident
    }

    /// The transfers of each step.
    pub fn steps(&self) -> &[PlannedStep] {
        &self.steps
    }

    /// The predicted pass.
    pub fn prediction(&self) -> &Prediction {
        &self.prediction
    }
}

/// The transfers around a step. Transfers to the device run in the order of these lists, one after another, and so do transfers
/// from the device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct PlannedStep {
    /// Complete before the step begins: [`In`](TransferKind::In), [`Claim`](TransferKind::Claim),
    /// [`ReadInPlace`](TransferKind::ReadInPlace).
    pub before: Vec<Transfer>,
    /// Begin when the step has ended: [`Out`](TransferKind::Out), [`Drop`](TransferKind::Drop).
    pub after: Vec<Transfer>,
}

/// A transfer, or a change of a place without a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Transfer {
    /// What is done.
    pub kind: TransferKind,
    /// The index of the buffer.
    pub buffer: usize,
    /// The place. Empty for [`ReadInPlace`](TransferKind::ReadInPlace).
    pub slots: Slots,
    /// The earliest point: the end of this step. The place is free then, except that transfers out of it that began at or before
    /// this point must be complete, too. `None`: from the beginning of the program.
    pub earliest: Option<Moment>,
    /// The step before which the transfer must be complete. `None` for a transfer from the device for which no step waits, and for
    /// [`Drop`](TransferKind::Drop).
    pub deadline: Option<Moment>,
}

/// What a [`Transfer`] does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TransferKind {
    /// Copies the contents from the home to the slots.
    In,
    /// Takes the slots for a buffer whose old contents are not needed. Transfers nothing.
    Claim,
    /// The step reads the contents in the home, over the link. Takes no slots.
    ReadInPlace,
    /// Copies the contents to the home. The buffer stays in its slots.
    Out,
    /// Frees the slots when the step and an earlier `Out` are complete. Transfers nothing.
    Drop,
}

/// Consecutive slots of [`SLOT_BYTES`](crate::SLOT_BYTES).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(deny_unknown_fields)]
pub struct Slots {
    /// The first slot.
    pub first: u64,
    /// The number of slots.
    pub count: u64,
}

impl Slots {
    /// The slot after the last one.
    pub fn end(self) -> u64 {
        self.first.saturating_add(self.count)
    }
}

/// A step of this pass or of a pass beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Moment {
    /// 0: this pass, -1: the previous pass, 1: the next pass.
    pub pass: i8,
    /// The index of the step.
    pub step: usize,
}

/// A buffer in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Resident {
    /// The index of the buffer.
    pub buffer: usize,
    /// Its place.
    pub slots: Slots,
}

/// A pass as predicted: in the steady state for a cyclic program.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Prediction {
    /// Bytes over the link to the device, including those that are read in place.
    pub in_bytes: u64,
    /// Bytes over the link from the device.
    pub out_bytes: u64,
    /// The time of the pass in seconds.
    pub seconds: f64,
    /// The sum of the times of the steps in seconds.
    pub compute_seconds: f64,
    /// The time of all transfers to the device, one after another at full speed, as if those in place were copies.
    pub in_seconds: f64,
    /// The time of all transfers from the device.
    pub out_seconds: f64,
    /// How long each step waits for transfers after the step before it has ended, or is slower because it reads in place.
    pub stall_seconds: Vec<f64>,
    /// The lower bound for this program, budget and link.
    pub bound: Bound,
}
