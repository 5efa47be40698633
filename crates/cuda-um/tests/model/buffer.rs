//! Buffers of all kinds, as one type.

use crate::world::Side;
use cuda_um::{DeviceBuffer, PinnedBuffer, Placement, Result, UnifiedBuffer, View, ViewMut};
use std::ops::Range;

/// A buffer of any kind.
pub enum Buffer {
    Unified(UnifiedBuffer<u32>),
    Device(DeviceBuffer<u32>),
    Pinned(PinnedBuffer<u32>),
}

/// Runs the same code for each kind of buffer.
macro_rules! each {
    ($buffer:expr, $name:ident => $body:expr) => {
        match $buffer {
            $crate::buffer::Buffer::Unified($name) => $body,
            $crate::buffer::Buffer::Device($name) => $body,
            $crate::buffer::Buffer::Pinned($name) => $body,
        }
    };
}
pub(crate) use each;

impl Buffer {
    pub fn ordinal(&self) -> u32 {
        each!(self, buffer => buffer.device().ordinal())
    }

    /// The managed buffer, or `None`.
    pub fn managed(&self) -> Option<&UnifiedBuffer<u32>> {
        match self {
            Self::Unified(buffer) if buffer.placement().placement == Placement::Managed => {
                Some(buffer)
            }
            _ => None,
        }
    }

    /// True if kernels of this side's device cannot use it.
    pub fn is_elsewhere(&self, side: &Side) -> bool {
        self.ordinal() != side.device.ordinal() && self.managed().is_none()
    }

    pub fn is_on_device(&self) -> bool {
        matches!(self, Self::Device(_))
    }

    /// True for memory of the host, pinned or mapped.
    pub fn is_on_host(&self) -> bool {
        !self.is_on_device() && self.managed().is_none()
    }

    pub fn view(&self, range: Range<usize>) -> Result<View<'_, u32>> {
        each!(self, buffer => buffer.view(range))
    }

    pub fn view_mut(&mut self, range: Range<usize>) -> Result<ViewMut<'_, u32>> {
        each!(self, buffer => buffer.view_mut(range))
    }
}
