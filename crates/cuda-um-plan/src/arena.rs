//! The arena over the steps of a pass: what a plan says, and what a run did.

mod svg;

use crate::{Plan, Program, Slots, TransferKind};
use std::collections::HashSet;

/// What a run of a plan did, to be drawn beside it: [`Plan::svg_beside`].
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
    /// The index of the buffer in [`Program::buffers`]; `None` for a buffer that the program does not have.
    pub buffer: Option<usize>,
    /// The buffer's place.
    pub slots: Slots,
}

/// A buffer in its place.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Stay {
    buffer: Option<usize>,
    slots: Slots,
    /// From the beginning of this step.
    from: usize,
    /// The first step that uses the buffer, or `from`: until then it is coming, or has come ahead.
    used: usize,
    /// To the beginning of this step.
    until: usize,
    /// The contents came over the link.
    moved: bool,
}

/// The stays of a plan. The places that the end of a pass has for the next one belong to this pass, too.
fn planned(plan: &Plan, steps: usize) -> Vec<Stay> {
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
fn ran(plan: &Plan, run: &Run, steps: usize) -> Vec<Stay> {
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
    for one in &run.changes {
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
        }
    }
    stays.append(&mut open);
    stays.retain(|stay| stay.from < stay.until);
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

impl Plan {
    /// The arena over the steps of a pass as an SVG file: which buffer is in which slots, and how long each step waits.
    ///
    /// Each rectangle is a buffer in its place, with a title. It is pale while the buffer is coming. Of more than 2000 rectangles the
    /// smallest are left out.
    pub fn svg(&self, program: &Program) -> String {
        svg::draw(self, program, None)
    }

    /// The same, with a run of the plan below it.
    pub fn svg_beside(&self, program: &Program, run: &Run) -> String {
        svg::draw(self, program, Some(run))
    }
}
