//! Work on streams: fills, kernels and copies, which are enqueued, or captured over one or several streams and launched several times among direct
//! work, each time with other named scalars.

use crate::buffer::{is_elsewhere, is_on_device, is_on_host};
use crate::model;
use crate::operation::{Part, Work};
use crate::replay::{Outcome, Replay, Slot, allowed, is_mismatch, refused, text};
use crate::world::{STREAMS, Side, is_refusal};
use cuda_um::kernel::Arguments;
use cuda_um::{Error, Scalar, Stream, constant};
use cuda_um_testkit::each;
use std::ops::Range;

const DIFFERENT: &str = "the slots of one operation are different";

/// Work on slots whose indices are known, on a range of the first one, and as many elements of the others.
enum Known {
    Fill(usize, u32),
    Step(usize, Range<usize>, u32),
    Mix([usize; 3], Range<usize>, u32),
    /// To an offset of the second one.
    Copy([usize; 2], Range<usize>, usize),
    Within(usize, Range<usize>, usize),
}

impl Known {
    fn slots(&self) -> &[usize] {
        match self {
            Self::Fill(at, _) | Self::Step(at, ..) | Self::Within(at, ..) => {
                std::slice::from_ref(at)
            }
            Self::Mix(slots, ..) => slots,
            Self::Copy(slots, ..) => slots,
        }
    }

    fn run(
        &self,
        slots: &mut [Slot],
        side: &Side,
        stream: &Stream,
        scalar: impl FnOnce(u32) -> Scalar<u32>,
    ) -> cuda_um::Result<()> {
        match self {
            Self::Fill(at, value) => {
                each!(&mut slots[*at].buffer, buffer => buffer.fill_on(constant(*value), stream))
            }
            Self::Step(at, range, number) => {
                let view = slots[*at].buffer.view_mut(range.clone())?;
                side.kernels.step(stream, view, scalar(*number))
            }
            Self::Mix(of, range, number) => {
                let [x, y, from] = slots.get_disjoint_mut(*of).expect(DIFFERENT);
                let others = 0..range.len();
                let views = (
                    x.buffer.view_mut(range.clone())?,
                    y.buffer.view_mut(others.clone())?,
                    from.buffer.view(others)?,
                );
                side.kernels.mix(stream, views, scalar(*number))
            }
            Self::Copy(of, range, offset) => {
                let [from, to] = slots.get_disjoint_mut(*of).expect(DIFFERENT);
                each!(&from.buffer, from => each!(&mut to.buffer, to => {
                    stream.copy_range(from, range.clone(), to, *offset)
                }))
            }
            Self::Within(at, range, to) => each!(&mut slots[*at].buffer, buffer => {
                buffer.copy_within_on(range.clone(), *to, stream)
            }),
        }
    }

    /// The effect on the model.
    fn play(&self, slots: &mut [Slot], held: bool) {
        match self {
            Self::Fill(at, value) => {
                let contents = &mut slots[*at].contents;
                contents.held_write |= held;
                contents.elements.fill(*value);
            }
            Self::Step(at, range, number) => {
                let contents = &mut slots[*at].contents;
                contents.held_write |= held && !range.is_empty();
                model::step(&mut contents.elements[range.clone()], *number);
            }
            Self::Mix(of, range, number) => {
                let of = slots.get_disjoint_mut(*of).expect(DIFFERENT);
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
            Self::Copy(of, range, offset) => {
                let of = slots.get_disjoint_mut(*of).expect(DIFFERENT);
                let [from, to] = of.map(|slot| &mut slot.contents);
                let held = held && !range.is_empty();
                from.held_read |= held;
                to.held_write |= held;
                to.elements[*offset..offset + range.len()]
                    .copy_from_slice(&from.elements[range.clone()]);
            }
            Self::Within(at, range, to) => {
                let contents = &mut slots[*at].contents;
                contents.held_write |= held && !range.is_empty() && *to != range.start;
                contents.elements.copy_within(range.clone(), *to);
            }
        }
    }
}

impl Replay<'_> {
    /// `None` if there are too few slots.
    fn known(&self, work: &Work) -> Option<Known> {
        let len = |at: usize| self.slots[at].contents.elements.len();
        // The range of a slot, as long as the others allow, and the offset in a slot of this length.
        let range = |at: usize, part: Part, longest: usize| {
            let range = part.of(len(at));
            range.start..range.end.min(range.start + longest)
        };
        let offset = |offset: u16, len: usize| usize::from(offset) * len / usize::from(u16::MAX);
        Some(match *work {
            Work::Fill(slot, value) => Known::Fill(self.slot(slot)?, value),
            Work::Step(slot, part, number) => {
                let at = self.slot(slot)?;
                Known::Step(at, part.of(len(at)), number)
            }
            Work::Mix(slots, part, number) => {
                // Three different slots: each one is removed from the remaining ones.
                let mut left: Vec<usize> = (0..self.slots.len()).collect();
                if left.len() < 3 {
                    return None;
                }
                let of = slots.map(|slot| left.remove(usize::from(slot) % left.len()));
                Known::Mix(of, range(of[0], part, len(of[1]).min(len(of[2]))), number)
            }
            Work::Copy(from, part, to, share) => {
                let (from, mut to) = (self.slot(from)?, self.slot(to)?);
                if from == to {
                    to = (to + 1) % self.slots.len();
                }
                let at = offset(share, len(to));
                (from != to)
                    .then(|| Known::Copy([from, to], range(from, part, len(to) - at), at))?
            }
            Work::CopyWithin(slot, part, share) => {
                let slot = self.slot(slot)?;
                let at = offset(share, len(slot));
                Known::Within(slot, range(slot, part, len(slot) - at), at)
            }
        })
    }

    pub fn enqueue(&mut self, stream: u8, work: &Work) -> Outcome {
        let Some(work) = self.known(work) else {
            return Ok(());
        };
        let (side, stream) = self.machine.stream(stream);
        let done = work.run(&mut self.slots, side, stream, Scalar::from);
        let mut used = work.slots().iter().map(|at| &self.slots[*at].buffer);
        let is_launch = matches!(work, Known::Step(..) | Known::Mix(..));
        let elsewhere =
            used.any(|buffer| is_elsewhere(buffer, side) && (is_launch || is_on_device(buffer)));
        // A kernel must be refused if a buffer belongs to another device; peer access opens some of them. A fill of device memory must be
        // refused, too, and memory of a driver's pool is only for its own device.
        let poor = self.machine.poor;
        let expected = |error: &Error| is_mismatch(error) || poor && is_launch && is_refusal(error);
        let must_fail = match work {
            Known::Fill(..) => elsewhere,
            _ => elsewhere && is_launch && !self.machine.has_peer_access,
        };
        let is_done = match done {
            Err(error) if elsewhere && expected(&error) => false,
            done if must_fail => return refused(done, expected),
            done => allowed(poor && is_launch, done)?.is_some(),
        };
        if !is_done {
            return Ok(());
        }
        // The host fills its memory itself.
        let is_of_host = matches!(work, Known::Fill(at, _) if is_on_host(&self.slots[at].buffer));
        work.play(&mut self.slots, self.hold.is_some() && !is_of_host);
        Ok(())
    }

    pub fn graph(&mut self, stream: u8, recorded: &[Work], launches: u8) -> Outcome {
        let (side, _) = self.machine.stream(stream);
        let mut buffers = self.slots.iter().map(|slot| &slot.buffer);
        if buffers.any(|buffer| is_elsewhere(buffer, side)) {
            return Ok(());
        }
        let mut work: Vec<_> = recorded.iter().filter_map(|one| self.known(one)).collect();
        let poor = self.machine.poor;
        let first = usize::from(stream) % STREAMS;
        let graph = side.streams[first].capture(|step| {
            side.streams
                .iter()
                .try_for_each(|stream| step.fork(stream))?;
            work.iter().enumerate().try_for_each(|(index, work)| {
                let stream = &side.streams[(first + index) % STREAMS];
                // The number of the work is the name of its scalar.
                let scalar = |number| step.scalar(&index.to_string(), number);
                work.run(&mut self.slots, side, stream, scalar)
            })
        });
        let Some(graph) = allowed(poor, graph)? else {
            return Ok(());
        };
        let mut exec = graph.instantiate().map_err(text)?;
        for launch in 0..usize::from(launches) {
            for (index, work) in work.iter_mut().enumerate().filter(|_| launch > 0) {
                if let Known::Step(.., number) | Known::Mix(.., number) = work {
                    *number += 1;
                    exec.set(&index.to_string(), *number).map_err(text)?;
                }
            }
            let stream = &side.streams[(first + launch) % STREAMS];
            let mut arguments = Arguments::new();
            for slot in &mut self.slots {
                each!(&mut slot.buffer, buffer => arguments.push(buffer));
            }
            if allowed(poor, exec.launch(stream, arguments))?.is_none() {
                return Ok(());
            }
            let held = self.hold.is_some();
            work.iter()
                .for_each(|work| work.play(&mut self.slots, held));
        }
        Ok(())
    }
}
