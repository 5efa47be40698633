//! Which buffer is in which place from which step until which other one.

use super::run::{Run, RunChange};
use crate::{Plan, Slots, TransferKind};
use std::collections::HashSet;

/// A buffer in its place, or in its home while a step reads it there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Stay {
    pub buffer: Option<usize>,
    /// None if the home is read.
    pub slots: Slots,
    /// From the beginning of this step.
    pub from: usize,
    /// The first step that uses the buffer, or `from`: until then it is coming, or has come ahead.
    pub used: usize,
    /// To the beginning of this step.
    pub until: usize,
    /// The contents came over the link.
    pub moved: bool,
}

impl Stay {
    /// A buffer that a step reads in place.
    fn at_home(buffer: Option<usize>, step: usize) -> Self {
        Self {
            buffer,
            slots: Slots::default(),
            from: step,
            used: step,
            until: step + 1,
            moved: true,
        }
    }
}

/// The stays of a plan. The places that the end of a pass has for the next one belong to this pass, too.
pub(super) fn planned(plan: &Plan, steps: usize) -> Vec<Stay> {
    let mut stays = Vec::new();
    let mut open: Vec<Stay> = Vec::new();
    for placed in plan.resident() {
        open.push(Stay {
            buffer: Some(placed.buffer),
            slots: placed.slots,
            from: 0,
            used: 0,
            until: steps,
            moved: false,
        });
    }
    for (step, planned) in plan.steps().iter().enumerate() {
        for one in &planned.before {
            if one.kind == TransferKind::ReadInPlace {
                stays.push(Stay::at_home(Some(one.buffer), step));
                continue;
            }
            let stay = Stay {
                buffer: Some(one.buffer),
                slots: one.slots,
                from: 0,
                used: step,
                until: steps,
                moved: one.kind == TransferKind::In,
            };
            let from = one.earliest.map_or(0, |earliest| match earliest.pass {
                0 => earliest.step + 1,
                _ => 0,
            });
            let from = from.min(step);
            // Ahead of this pass.
            if let Some(earliest) = one.earliest.filter(|earliest| earliest.pass < 0) {
                stays.push(Stay {
                    from: (earliest.step + 1).min(steps),
                    used: steps,
                    ..stay
                });
            }
            open.push(Stay { from, ..stay });
        }
        for one in planned
            .after
            .iter()
            .filter(|one| one.kind == TransferKind::Drop)
        {
            close(&mut open, &mut stays, Some(one.buffer), step + 1);
        }
    }
    stays.append(&mut open);
    stays.retain(|stay| stay.from < stay.until);
    stays
}

/// The stays of a run. What was in the arena at its beginning is known from the plan, and from the changes.
pub(super) fn ran(plan: &Plan, run: &Run, steps: usize) -> Vec<Stay> {
    let (mut stays, mut open) = (Vec::new(), Vec::new());
    let enters = |kind: TransferKind| matches!(kind, TransferKind::In | TransferKind::Claim);
    let stay = |buffer, slots| Stay {
        buffer,
        slots,
        from: 0,
        used: 0,
        until: steps,
        moved: false,
    };
    let mut seen = HashSet::new();
    let in_arena = |one: &&RunChange| one.kind != TransferKind::ReadInPlace;
    for one in run.changes.iter().filter(in_arena) {
        if seen.insert(one.buffer) && !enters(one.kind) {
            open.push(stay(one.buffer, one.slots));
        }
    }
    for placed in plan.resident() {
        if !seen.contains(&Some(placed.buffer)) {
            open.push(stay(Some(placed.buffer), placed.slots));
        }
    }
    for one in &run.changes {
        let step = one.step.min(steps);
        if enters(one.kind) {
            open.push(Stay {
                from: step,
                used: step,
                moved: one.kind == TransferKind::In,
                ..stay(one.buffer, one.slots)
            });
        } else if one.kind == TransferKind::Drop {
            close(&mut open, &mut stays, one.buffer, step);
        } else if one.kind == TransferKind::ReadInPlace {
            stays.push(Stay::at_home(one.buffer, step));
        }
    }
    stays.append(&mut open);
    stays.retain(|stay| stay.from < stay.until.min(steps));
    stays
}

fn close(open: &mut Vec<Stay>, stays: &mut Vec<Stay>, buffer: Option<usize>, until: usize) {
    if let Some(at) = open.iter().rposition(|stay| stay.buffer == buffer) {
        stays.push(Stay {
            until,
            ..open.swap_remove(at)
        });
    }
}
