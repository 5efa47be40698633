//! A buffer of any kind, and its expected contents.

use super::budget::Charge;
use super::kernels::Affine;
use cuda_um::{DeviceBuffer, PinnedBuffer, Result, Stream, UnifiedBuffer, View, ViewMut};
use std::collections::VecDeque;

pub enum Buffer {
    Unified(UnifiedBuffer<u32>),
    Device(DeviceBuffer<u32>),
    Pinned(PinnedBuffer<u32>),
}

/// Runs the same code for each kind.
macro_rules! each {
    ($buffer:expr, $found:ident => $do:expr) => {
        match $buffer {
            Buffer::Unified($found) => $do,
            Buffer::Device($found) => $do,
            Buffer::Pinned($found) => $do,
        }
    };
}

impl Buffer {
    pub fn len(&self) -> usize {
        each!(self, buffer => buffer.len())
    }

    pub fn view(&self) -> Result<View<'_, u32>> {
        each!(self, buffer => buffer.view(..))
    }

    pub fn view_mut(&mut self) -> Result<ViewMut<'_, u32>> {
        each!(self, buffer => buffer.view_mut(..))
    }

    /// Copies from another buffer, as many elements as `self` has.
    pub fn copy_from(&mut self, from: &Self, stream: &Stream) -> Result<()> {
        let len = self.len();
        each!(self, to => each!(from, from => stream.copy_range(from, ..len, to, 0)))
    }

    /// Writes with a guard if the kind has one, otherwise with a copy.
    pub fn write(&mut self, content: Content) -> Result<()> {
        let len = self.len();
        match self {
            Self::Unified(buffer) => content.write(&mut buffer.host_mut()?),
            Self::Pinned(buffer) => content.write(&mut buffer.host_mut()?),
            Self::Device(buffer) => buffer.copy_from_host(&content.elements(len))?,
        }
        Ok(())
    }

    /// The contents, read with a guard or with a copy.
    pub fn read(&self, by_guard: bool) -> Result<Vec<u32>> {
        Ok(match self {
            Self::Unified(buffer) if by_guard => buffer.host()?.to_vec(),
            Self::Pinned(buffer) if by_guard => buffer.host()?.to_vec(),
            other => each!(other, buffer => buffer.to_vec()?),
        })
    }

    pub fn kind(&self) -> &'static str {
        match self {
            Self::Unified(_) => "unified",
            Self::Device(_) => "device",
            Self::Pinned(_) => "pinned",
        }
    }

    pub fn close(self) -> Result<()> {
        each!(self, buffer => buffer.close())
    }
}

/// The expected elements: a pattern from the seed, and all changes by kernels.
#[derive(Clone, Copy)]
pub struct Content {
    seed: u32,
    changed: Affine,
}

impl Content {
    pub fn new(seed: u32) -> Self {
        let changed = Affine {
            factor: 1,
            addend: 0,
        };
        Self { seed, changed }
    }

    #[must_use]
    pub fn changed(self, by: Affine) -> Self {
        let changed = self.changed.then(by);
        Self { changed, ..self }
    }

    fn element(self, index: usize) -> u32 {
        let mixed = (index as u32 ^ self.seed).wrapping_mul(0x9e37_79b9);
        self.changed.of(mixed ^ mixed >> 15)
    }

    pub fn elements(self, len: usize) -> Vec<u32> {
        (0..len).map(|index| self.element(index)).collect()
    }

    fn write(self, elements: &mut [u32]) {
        let at = |(index, element): (usize, &mut u32)| *element = self.element(index);
        elements.iter_mut().enumerate().for_each(at);
    }

    /// The index of the first element that is not in `found` as expected.
    pub fn first_wrong(self, found: &[u32]) -> Option<usize> {
        (0..found.len()).find(|&index| found[index] != self.element(index))
    }
}

/// A buffer that is passed from thread to thread.
pub struct Item<'a> {
    pub buffer: Buffer,
    pub content: Content,
    /// The last changes and moves, for the report of an error: what was done, and the contents since.
    pub past: VecDeque<(String, Content)>,
    /// Dropped after the buffer.
    pub charge: Option<Charge<'a>>,
}

impl Item<'_> {
    /// Notes what was done to the buffer.
    pub fn note(&mut self, what: String) {
        self.past.push_back((what, self.content));
        if self.past.len() > 12 {
            self.past.pop_front();
        }
    }

    /// Describes contents that are wrong.
    pub fn report(&self, found: &[u32], at: usize, by_guard: bool) -> String {
        let (buffer, wrong) = (&self.buffer, self.wrong(found));
        let again: Vec<_> = [false, true]
            .map(|by_guard| buffer.read(by_guard).map(|found| self.wrong(&found)))
            .into();
        let since = |(what, content): &(String, Content)| {
            let same = content.first_wrong(found).is_none();
            format!(
                "  {what}{}",
                if same { " <- the contents found" } else { "" }
            )
        };
        let past: Vec<_> = self.past.iter().map(since).collect();
        let plain = self.charge.is_some();
        format!(
            "stress: {} of {} elements, plain {plain}, read by guard {by_guard}: wrong from {at} on, {wrong} in all; by a copy and a guard now: {again:?}\n{}\n  found {:x?}\n  expected {:x?}",
            buffer.kind(),
            found.len(),
            past.join("\n"),
            &found[at..found.len().min(at + 8)],
            &self.content.elements(found.len())[at..found.len().min(at + 8)],
        )
    }

    fn wrong(&self, found: &[u32]) -> usize {
        let expected = self.content.elements(found.len());
        found
            .iter()
            .zip(expected)
            .filter(|(found, expected)| *found != expected)
            .count()
    }
}
