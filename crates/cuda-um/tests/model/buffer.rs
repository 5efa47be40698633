//! What the sequences ask of a buffer.

use crate::world::Side;
use cuda_um::{Placement, UnifiedBuffer};
use cuda_um_testkit::{AnyBuffer, each};

pub fn ordinal(buffer: &AnyBuffer) -> u32 {
    each!(buffer, buffer => buffer.device().ordinal())
}

/// The managed buffer, or `None`.
pub fn managed(buffer: &AnyBuffer) -> Option<&UnifiedBuffer<u32>> {
    match buffer {
        AnyBuffer::Unified(buffer) if buffer.placement().placement == Placement::Managed => {
            Some(buffer)
        }
        _ => None,
    }
}

/// True if kernels of this side's device cannot use it.
pub fn is_elsewhere(buffer: &AnyBuffer, side: &Side) -> bool {
    ordinal(buffer) != side.device.ordinal() && managed(buffer).is_none()
}

pub fn is_on_device(buffer: &AnyBuffer) -> bool {
    matches!(buffer, AnyBuffer::Device(_))
}

/// True for memory of the host, pinned or mapped.
pub fn is_on_host(buffer: &AnyBuffer) -> bool {
    !is_on_device(buffer) && managed(buffer).is_none()
}
