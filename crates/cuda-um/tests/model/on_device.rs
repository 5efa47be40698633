//! Work on streams: fills, kernels, copies.

use crate::buffer::{is_elsewhere, is_on_device, is_on_host, ordinal};
use crate::model;
use crate::operation::Part;
use crate::replay::{Outcome, Replay, Slot, allowed, is_mismatch, refused, text};
use crate::world::is_refusal;
use cuda_um::Error;
use cuda_um_testkit::each;

impl Replay<'_> {
    pub fn fill(&mut self, slot: u8, stream: u8, value: u32) -> Outcome {
        let Some(at) = self.slot(slot) else {
            return Ok(());
        };
        let (side, stream) = self.machine.stream(stream);
        let Slot {
            buffer, contents, ..
        } = &mut self.slots[at];
        let filled = each!(&mut *buffer, buffer => buffer.fill_on(value, stream));
        let elsewhere = ordinal(&buffer) != side.device.ordinal();
        if elsewhere && is_on_device(&buffer) {
            return refused(filled, is_mismatch);
        }
        filled.map_err(text)?;
        contents.held_write |= self.hold.is_some() && !is_on_host(&buffer);
        contents.elements.fill(value);
        Ok(())
    }

    /// A kernel must be refused if a buffer belongs to another device; peer access opens some of them.
    fn launched(&self, launched: cuda_um::Result<()>, elsewhere: bool) -> Result<bool, String> {
        let poor = self.machine.poor;
        let expected = |error: &Error| is_mismatch(error) || poor && is_refusal(error);
        match launched {
            Err(error) if elsewhere && expected(&error) => Ok(false),
            launched if elsewhere && !self.machine.has_peer_access => {
                refused(launched, expected).map(|()| false)
            }
            launched => Ok(allowed(poor, launched)?.is_some()),
        }
    }

    pub fn step_elements(&mut self, slot: u8, part: Part, stream: u8, number: u32) -> Outcome {
        let Some(at) = self.slot(slot) else {
            return Ok(());
        };
        let (side, stream) = self.machine.stream(stream);
        let Slot {
            buffer, contents, ..
        } = &mut self.slots[at];
        let range = part.of(contents.elements.len());
        let elsewhere = is_elsewhere(&buffer, side);
        let view = buffer.view_mut(range.clone()).map_err(text)?;
        let launched = side.kernels.step(stream, view, number);
        if self.launched(launched, elsewhere)? {
            let held = self.hold.is_some();
            let contents = &mut self.slots[at].contents;
            contents.held_write |= held && !range.is_empty();
            model::step(&mut contents.elements[range], number);
        }
        Ok(())
    }

    pub fn mix(&mut self, slots: [u8; 3], part: Part, stream: u8, number: u32) -> Outcome {
        let count = self.slots.len();
        if count < 3 {
            return Ok(());
        }
        // Three different slots: each one is removed from the remaining ones.
        let mut left: Vec<usize> = (0..count).collect();
        let chosen = slots.map(|slot| left.remove(usize::from(slot) % left.len()));
        let (side, stream) = self.machine.stream(stream);
        let Ok([x, y, from]) = self.slots.get_disjoint_mut(chosen) else {
            return Ok(());
        };
        let mut range = part.of(x.contents.elements.len());
        let shortest = y.contents.elements.len().min(from.contents.elements.len());
        range.end = range.end.min(range.start + shortest);
        let others = 0..range.len();
        let elsewhere = [&x.buffer, &y.buffer, &from.buffer]
            .iter()
            .any(|buffer| is_elsewhere(&buffer, side));
        let launched = side.kernels.mix(
            stream,
            (
                x.buffer.view_mut(range.clone()).map_err(text)?,
                y.buffer.view_mut(others.clone()).map_err(text)?,
                from.buffer.view(others.clone()).map_err(text)?,
            ),
            number,
        );
        if !self.launched(launched, elsewhere)? {
            return Ok(());
        }
        let held = self.hold.is_some() && !range.is_empty();
        let Ok([x, y, from]) = self.slots.get_disjoint_mut(chosen) else {
            return Ok(());
        };
        x.contents.held_write |= held;
        y.contents.held_write |= held;
        from.contents.held_read |= held;
        model::mix(
            &mut x.contents.elements[range],
            &mut y.contents.elements[others.clone()],
            &from.contents.elements[others],
            number,
        );
        Ok(())
    }

    pub fn copy(&mut self, from: (u8, Part), to: (u8, u16), stream: u8) -> Outcome {
        let (Some(source), Some(mut target)) = (self.slot(from.0), self.slot(to.0)) else {
            return Ok(());
        };
        if source == target {
            target = (target + 1) % self.slots.len();
        }
        let (side, stream) = self.machine.stream(stream);
        let Ok([source, target]) = self.slots.get_disjoint_mut([source, target]) else {
            return Ok(());
        };
        let len = target.contents.elements.len();
        let offset = usize::from(to.1) * len / usize::from(u16::MAX);
        let mut range = from.1.of(source.contents.elements.len());
        range.end = range.end.min(range.start + len - offset);
        let copied = each!(&source.buffer, source => each!(&mut target.buffer, target => {
            stream.copy_range(source, range.clone(), target, offset)
        }));
        let is_elsewhere =
            |slot: &Slot| is_on_device(&slot.buffer) && is_elsewhere(&slot.buffer, side);
        match copied {
            // A driver pool is only for its own device.
            Err(error)
                if is_mismatch(&error) && [&*source, target].into_iter().any(is_elsewhere) =>
            {
                return Ok(());
            }
            copied => copied.map_err(text)?,
        }
        let held = self.hold.is_some() && !range.is_empty();
        source.contents.held_read |= held;
        target.contents.held_write |= held;
        target.contents.elements[offset..offset + range.len()]
            .copy_from_slice(&source.contents.elements[range]);
        Ok(())
    }

    pub fn copy_within(&mut self, from: (u8, Part), offset: u16, stream: u8) -> Outcome {
        let Some(at) = self.slot(from.0) else {
            return Ok(());
        };
        let (side, stream) = self.machine.stream(stream);
        let Slot {
            buffer, contents, ..
        } = &mut self.slots[at];
        let len = contents.elements.len();
        let offset = usize::from(offset) * len / usize::from(u16::MAX);
        let mut range = from.1.of(len);
        range.end = range.end.min(range.start + len - offset);
        let copied =
            each!(&mut *buffer, buffer => buffer.copy_within_on(range.clone(), offset, stream));
        match copied {
            // A driver pool is only for its own device.
            Err(error)
                if is_mismatch(&error) && is_on_device(&buffer) && is_elsewhere(&buffer, side) =>
            {
                return Ok(());
            }
            copied => copied.map_err(text)?,
        }
        let moves = !range.is_empty() && offset != range.start;
        contents.held_write |= self.hold.is_some() && moves;
        contents.elements.copy_within(range, offset);
        Ok(())
    }
}
