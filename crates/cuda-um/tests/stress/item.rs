//! A buffer of any kind, and its expected contents.

use super::budget::Charge;
use super::kernels::Affine;
use cuda_um::{DeviceBuffer, PinnedBuffer, Result, Stream, UnifiedBuffer, View, ViewMut};

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

    /// The checksum of the contents, read with a guard or with a copy.
    pub fn checksum(&self, by_guard: bool) -> Result<u64> {
        Ok(match self {
            Self::Unified(buffer) if by_guard => checksum(buffer.host()?.iter().copied()),
            Self::Pinned(buffer) if by_guard => checksum(buffer.host()?.iter().copied()),
            other => checksum(each!(other, buffer => buffer.read_back()?).into_iter()),
        })
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

    pub fn checksum(self, len: usize) -> u64 {
        checksum((0..len).map(|index| self.element(index)))
    }
}

/// FNV-1a over elements.
fn checksum(elements: impl Iterator<Item = u32>) -> u64 {
    elements.fold(0xcbf2_9ce4_8422_2325, |sum, element| {
        (sum ^ u64::from(element)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// A buffer that is passed from thread to thread.
pub struct Item<'a> {
    pub buffer: Buffer,
    pub content: Content,
    /// Dropped after the buffer.
    pub charge: Option<Charge<'a>>,
}
