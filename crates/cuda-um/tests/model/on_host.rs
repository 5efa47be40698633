//! The host reads and writes.

use crate::model::{number, numbers};
use crate::operation::{Part, Reading, Writing};
use crate::replay::{Outcome, Replay, Slot, text};
use cuda_um::ErrorKind;
use cuda_um_sim::HoldGuard;
use cuda_um_testkit::{AnyBuffer, each};
use std::ops::Range;

impl Replay<'_> {
    pub fn write(&mut self, slot: u8, part: Part, seed: u32, how: Writing) -> Outcome {
        let Some(at) = self.slot(slot) else {
            return Ok(());
        };
        let held = self.hold.as_ref();
        let Slot {
            buffer, contents, ..
        } = &mut self.slots[at];
        let len = contents.elements.len();
        let range = match how {
            Writing::CopyInAsync => 0..len,
            _ => part.of(len),
        };
        let source = || numbers(seed, range.clone());
        macro_rules! in_place {
            ($buffer:ident) => {
                match how {
                    Writing::WriteGuard => $buffer.host_mut(),
                    Writing::TryWrite => $buffer.try_host_mut(),
                    _ => pollster::block_on($buffer.host_mut_async()),
                }
            };
        }
        let guard = match (&mut *buffer, how) {
            (AnyBuffer::Device(_), Writing::TryWrite) => return Ok(()),
            (_, Writing::CopyIn)
            | (AnyBuffer::Device(_), Writing::WriteGuard | Writing::WriteAsync) => {
                each!(buffer, buffer => buffer.copy_from_host_at(range.start, &source()))
                    .map_err(text)?;
                None
            }
            (_, Writing::CopyInAsync) => {
                each!(buffer, buffer => pollster::block_on(buffer.copy_from_host_async(&source())))
                    .map_err(text)?;
                None
            }
            (_, Writing::Overwrite) => {
                each!(buffer, buffer => buffer.host_overwrite(range.clone(), |first, slots| {
                    slots.fill_with(|index| number(seed, first + index))
                }))
                .map_err(text)?;
                None
            }
            (AnyBuffer::Unified(buffer), _) => Some(in_place!(buffer)),
            (AnyBuffer::Pinned(buffer), _) => Some(in_place!(buffer)),
        };
        match guard {
            None => {}
            Some(Err(error)) if how == Writing::TryWrite && error.kind() == ErrorKind::Busy => {
                return Ok(());
            }
            Some(Err(error)) => return Err(text(error)),
            Some(Ok(mut guard)) => {
                if (contents.held_write || contents.held_read) && is_held(held) {
                    return Err("the host has a buffer that held work uses".to_owned());
                }
                contents.compare(0..len, &guard)?;
                guard[range.clone()].copy_from_slice(&source());
            }
        }
        contents.write(range, seed);
        Ok(())
    }

    pub fn read(&self, at: usize, part: Part, how: Reading) -> Outcome {
        let Slot {
            buffer, contents, ..
        } = &self.slots[at];
        let range = part.of(contents.elements.len());
        let copied = |range: &Range<usize>| {
            let mut found = vec![!0; range.len()];
            let copied = each!(buffer, buffer => buffer.copy_to_host_at(range.start, &mut found));
            copied.map(|()| found)
        };
        macro_rules! in_place {
            ($buffer:ident) => {
                match how {
                    Reading::ReadGuard => $buffer.host(),
                    Reading::TryRead => $buffer.try_host(),
                    _ => pollster::block_on($buffer.host_async()),
                }
            };
        }
        let guard = match (buffer, how) {
            (AnyBuffer::Device(_), Reading::TryRead) => return Ok(()),
            (_, Reading::ReadBack) => {
                let found = each!(buffer, buffer => buffer.to_vec()).map_err(text)?;
                return contents.compare(0..contents.elements.len(), &found);
            }
            (AnyBuffer::Device(buffer), Reading::ReadAsync) => {
                let mut found = vec![!0; buffer.len()];
                pollster::block_on(buffer.copy_to_host_async(&mut found)).map_err(text)?;
                return contents.compare(0..found.len(), &found);
            }
            (_, Reading::CopyOut) | (AnyBuffer::Device(_), Reading::ReadGuard) => {
                let found = copied(&range).map_err(text)?;
                return contents.compare(range, &found);
            }
            (AnyBuffer::Unified(buffer), _) => in_place!(buffer),
            (AnyBuffer::Pinned(buffer), _) => in_place!(buffer),
        };
        match guard {
            Err(error) if how == Reading::TryRead && error.kind() == ErrorKind::Busy => Ok(()),
            Err(error) => Err(text(error)),
            Ok(_) if contents.held_write && is_held(self.hold.as_ref()) => {
                Err("the host has a buffer that held work writes".to_owned())
            }
            Ok(guard) => contents.compare(range.clone(), &guard[range]),
        }
    }
}

/// True if no work that was enqueued since then has run.
fn is_held(hold: Option<&HoldGuard>) -> bool {
    hold.is_some_and(|hold| !hold.is_over())
}
