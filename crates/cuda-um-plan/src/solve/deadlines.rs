//! The deadlines of transfers from the device.

use crate::places::Places;
use crate::{Moment, PlannedStep, TransferKind};

/// A transfer from the device: the pass, the step after which it begins, and its index in the list of this step.
type Out = (i8, usize, usize);

/// A transfer from the device must be complete before the first step whose buffer takes a part of the same place, or reads the
/// contents in the home.
pub(crate) fn set(steps: &mut [PlannedStep], buffers: usize, cyclic: bool) {
    let mut homes: Vec<Option<Out>> = vec![None; buffers];
    let mut leaving: Vec<Option<Out>> = vec![None; buffers];
    let mut places = Places::new();
    let mut due = Vec::new();
    for pass in 0..if cyclic { 2 } else { 1 } {
        for step in 0..steps.len() {
            for one in &steps[step].before {
                if one.kind != TransferKind::Claim {
                    due.extend(homes[one.buffer].take());
                }
                places.take(one.slots, |out| due.push(out));
            }
            for (began, at, index) in due.drain(..) {
                let pass = pass - began;
                let deadline = &mut steps[at].after[index].deadline;
                deadline.get_or_insert(Moment { pass, step });
            }
            for (index, one) in steps[step].after.iter().enumerate() {
                if one.kind == TransferKind::Out {
                    homes[one.buffer] = Some((pass, step, index));
                    leaving[one.buffer] = homes[one.buffer];
                } else if let Some(out) = leaving[one.buffer].take() {
                    places.leave(one.slots, out);
                }
            }
        }
    }
}
