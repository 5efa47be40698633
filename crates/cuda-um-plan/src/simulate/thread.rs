//! What the thread of the steps does with files. Before a step, it does the transfers whose earliest point is over: first those from the
//! device, then those to it. It enqueues the step afterwards.

use super::work::Work;
use crate::transfers::Transfers;
use crate::{Link, Moment, Program, Repeat, TransferKind};

/// A part of the thread's work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Duty {
    /// Waits for this transfer from the device, counted from the first one of this pass.
    Out(i64),
    /// Reads a file, when the file before has arrived: the pinned memory holds one.
    In(Read),
}

/// The thread's part of a transfer to the device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Read {
    pub seconds: f64,
    /// The file before, counted from the first transfer to the device of this pass.
    pub after: Option<i64>,
    /// The end of the step that has the place before, if the thread waits for it, with passes counted from this one.
    pub place: Option<Moment>,
}

/// If the thread takes part in more of a transfer than this, most bytes do not fit into pinned memory, so it waits for the place.
const WAITS: f64 = 0.5;

impl Work {
    /// Adds what the thread does with files.
    pub(super) fn add_files(&mut self, lists: &Transfers, program: &Program, link: &Link) {
        let by_thread = |buffer: usize| link.needs_thread(&program.buffers[buffer]);
        let Some(file) = link.file else {
            return;
        };
        if !(0..program.buffers.len()).any(by_thread) {
            return;
        }
        let (steps, count) = (self.compute.len(), self.ins.len());
        let mut duties = vec![Vec::new(); steps];
        for (index, out) in lists.after.outs().into_iter().enumerate() {
            // After its step, so before the next one. After the last step: before the first one of the next pass.
            let (step, pass) = match self.outs[index].0 + 1 {
                step if step == steps => (0, 1),
                step => (step, 0),
            };
            if by_thread(lists.after.all[out].buffer) && (pass == 0 || self.cyclic) {
                let out = index as i64 - pass * self.outs.len() as i64;
                duties[step].push((None, Duty::Out(out)));
            }
        }
        let passes = if program.repeat == Repeat::Once { 1 } else { 2 };
        // The step before which the thread comes to an entry, counted from the first pass. Entries have an order.
        let (mut reached, mut file_before) = (0, None);
        // Transfers to the device that need no thread, except that it enqueues them after it waited for those from the device.
        let mut others = Vec::new();
        for pass in 0..passes {
            let mut index = 0;
            for one in (0..steps).flat_map(|step| lists.before.of_step(step)) {
                if let Some(earliest) = one.earliest {
                    let pass = pass as i64 + i64::from(earliest.pass);
                    let step = pass * steps as i64 + earliest.step as i64 + 1;
                    reached = reached.max(step.max(0) as usize);
                }
                if one.kind != TransferKind::In {
                    continue;
                }
                if by_thread(one.buffer) {
                    // In the last pass, as in all later ones.
                    if pass + 1 == passes {
                        let entry = &mut self.ins[index];
                        let seconds = entry.seconds * file.busy;
                        entry.seconds -= seconds;
                        let ahead = (pass - reached / steps) * count;
                        let after = file_before.map(|before: usize| {
                            before as i64 - (pass * count) as i64 + ahead as i64
                        });
                        let passes_ahead = (pass - reached / steps) as i8;
                        let place = one.earliest.filter(|_| file.busy > WAITS);
                        let place = place.map(|place| Moment {
                            pass: place.pass + passes_ahead,
                            ..place
                        });
                        let duty = Duty::In(Read {
                            seconds,
                            after,
                            place,
                        });
                        duties[reached % steps].push((Some((index, ahead > 0)), duty));
                    }
                    file_before = Some(pass * count + index);
                } else if pass + 1 == passes {
                    others.push((index, reached % steps, pass > reached / steps));
                }
                index += 1;
            }
        }
        self.thread_of_ins = vec![None; count];
        let (mut of_next, mut outs_until) = (Vec::new(), Vec::with_capacity(steps));
        for mut duties in duties {
            // Transfers for the next pass come last.
            duties.sort_by_key(|(entry, _)| entry.map(|(index, is_ahead)| (is_ahead, index)));
            let outs = duties.iter().filter(|(entry, _)| entry.is_none()).count();
            outs_until.push((self.thread.len() + outs) as i64 - 1);
            for (entry, duty) in duties {
                if let Some((index, is_ahead)) = entry {
                    let at = self.thread.len() as i64;
                    self.thread_of_ins[index] = Some(at);
                    of_next.extend(is_ahead.then_some(index));
                }
                self.thread.push(duty);
            }
            self.thread_until.push(self.thread.len());
        }
        for (index, step, is_ahead) in others {
            self.thread_of_ins[index] = Some(outs_until[step]);
            of_next.extend(is_ahead.then_some(index));
        }
        // The thread does these in the pass before.
        for index in of_next {
            let at = self.thread_of_ins[index].as_mut();
            at.into_iter()
                .for_each(|at| *at -= self.thread.len() as i64);
        }
    }
}
