//! Captured work, over one or several streams, that is launched several times among direct work, each time with other named scalars.

use crate::buffer::is_elsewhere;
use crate::model;
use crate::operation::{Part, Recorded};
use crate::replay::{Outcome, Replay, Slot, allowed, text};
use crate::world::{STREAMS, Side};
use cuda_um::kernel::Arguments;
use cuda_um::{
    Stream, constant,
    graph::{GraphExec, Recording},
};
use cuda_um_testkit::each;
use std::ops::Range;

/// Work on the slots whose indices and ranges are known.
enum Work {
    Fill(usize, u32),
    Step(usize, Range<usize>, u32),
    Mix([usize; 3], Range<usize>, u32),
    Copy(usize, Range<usize>, usize),
}

impl Replay<'_> {
    pub fn graph(&mut self, stream: u8, recorded: &[Recorded], launches: u8) -> Outcome {
        let (side, _) = self.machine.stream(stream);
        if self.slots.len() < 3
            || self
                .slots
                .iter()
                .any(|slot| is_elsewhere(&slot.buffer, side))
        {
            return Ok(());
        }
        let mut work: Vec<_> = recorded.iter().map(|one| self.work(one)).collect();
        let poor = self.machine.poor;
        let first = usize::from(stream) % STREAMS;
        let graph = side.streams[first].capture(|recording| {
            side.streams
                .iter()
                .try_for_each(|stream| recording.fork(stream))?;
            work.iter().enumerate().try_for_each(|(index, work)| {
                let stream = &side.streams[(first + index) % STREAMS];
                record(&mut self.slots, side, (recording, stream), (index, work))
            })
        });
        let Some(graph) = allowed(poor, graph)? else {
            return Ok(());
        };
        let mut exec = graph.instantiate().map_err(text)?;
        for launch in 0..usize::from(launches) {
            for (index, work) in work.iter_mut().enumerate().filter(|_| launch > 0) {
                if let Work::Step(.., number) | Work::Mix(.., number) = work {
                    *number += 1;
                    exec.set(&index.to_string(), *number).map_err(text)?;
                }
            }
            let stream = &side.streams[(first + launch) % STREAMS];
            if allowed(poor, launch_with(&mut exec, stream, &mut self.slots))?.is_none() {
                return Ok(());
            }
            let held = self.hold.is_some();
            work.iter()
                .for_each(|work| play(&mut self.slots, work, held));
        }
        Ok(())
    }

    fn work(&self, recorded: &Recorded) -> Work {
        let count = self.slots.len();
        let len = |at: usize| self.slots[at].contents.elements.len();
        // The range of the first slot, as long as the shortest one allows.
        let range = |at: usize, part: Part, shortest: usize| {
            let range = part.of(len(at));
            range.start..range.end.min(range.start + shortest)
        };
        match *recorded {
            Recorded::Fill { slot, value } => Work::Fill(usize::from(slot) % count, value),
            Recorded::Step { slot, part, number } => {
                let at = usize::from(slot) % count;
                Work::Step(at, part.of(len(at)), number)
            }
            Recorded::Mix { slot, part, number } => {
                let slots = [0, 1, 2].map(|next| (usize::from(slot) + next) % count);
                let shortest = len(slots[1]).min(len(slots[2]));
                Work::Mix(slots, range(slots[0], part, shortest), number)
            }
            Recorded::Copy { slot, part } => {
                let (from, to) = (usize::from(slot) % count, (usize::from(slot) + 1) % count);
                Work::Copy(from, range(from, part, len(to)), to)
            }
        }
    }
}

/// The number of the work is the name of its scalar.
fn record(
    slots: &mut [Slot],
    side: &Side,
    (step, stream): (&Recording<'_>, &Stream),
    (index, work): (usize, &Work),
) -> cuda_um::Result<()> {
    let shared = "the slots of one operation are different";
    match work {
        Work::Fill(at, value) => {
            each!(&mut slots[*at].buffer, buffer => buffer.fill_on(constant(*value), stream))
        }
        Work::Step(at, range, number) => {
            let view = slots[*at].buffer.view_mut(range.clone())?;
            let number = step.scalar(&index.to_string(), *number);
            side.kernels.step(stream, view, number)
        }
        Work::Mix(of, range, number) => {
            let [x, y, from] = slots.get_disjoint_mut(*of).expect(shared);
            let others = 0..range.len();
            let views = (
                x.buffer.view_mut(range.clone())?,
                y.buffer.view_mut(others.clone())?,
                from.buffer.view(others)?,
            );
            let number = step.scalar(&index.to_string(), *number);
            side.kernels.mix(stream, views, number)
        }
        Work::Copy(from, range, to) => {
            let [from, to] = slots.get_disjoint_mut([*from, *to]).expect(shared);
            each!(&from.buffer, from => each!(&mut to.buffer, to => {
                stream.copy_range(from, range.clone(), to, 0)
            }))
        }
    }
}

fn launch_with(exec: &mut GraphExec, stream: &Stream, slots: &mut [Slot]) -> cuda_um::Result<()> {
    let mut arguments = Arguments::new();
    for slot in slots {
        each!(&mut slot.buffer, buffer => arguments.push(buffer));
    }
    exec.launch(stream, arguments)
}

/// The effect on the model.
fn play(slots: &mut [Slot], work: &Work, held: bool) {
    let shared = "the slots of one operation are different";
    match work {
        Work::Fill(at, value) => {
            let contents = &mut slots[*at].contents;
            contents.held_write |= held;
            contents.elements.fill(*value);
        }
        Work::Step(at, range, number) => {
            let contents = &mut slots[*at].contents;
            contents.held_write |= held && !range.is_empty();
            model::step(&mut contents.elements[range.clone()], *number);
        }
        Work::Mix(of, range, number) => {
            let of = slots.get_disjoint_mut(*of).expect(shared);
            let [x, y, from] = of.map(|slot| &mut slot.contents);
            let held = held && !range.is_empty();
            x.held_write |= held;
            y.held_write |= held;
            from.held_read |= held;
            let others = 0..range.len();
            let x = &mut x.elements[range.clone()];
            let (y, from) = (&mut y.elements[others.clone()], &from.elements[others]);
            model::mix(x, y, from, *number);
        }
        Work::Copy(from, range, to) => {
            let [from, to] = slots.get_disjoint_mut([*from, *to]).expect(shared);
            let held = held && !range.is_empty();
            from.contents.held_read |= held;
            to.contents.held_write |= held;
            let copied = &from.contents.elements[range.clone()];
            to.contents.elements[..range.len()].copy_from_slice(copied);
        }
    }
}
