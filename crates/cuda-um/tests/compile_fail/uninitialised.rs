//! claim 4: memory that nothing initialised, and elements of which not every value is valid.

use cuda_um::{Device, Result, UnifiedBuffer, View};
use std::mem::MaybeUninit;

/// The host reads memory that nothing initialised.
fn uninit_is_not_read(device: Device) -> Result<()> {
    let buffer = UnifiedBuffer::<u32>::uninit(&device, 1)?;
    buffer.host()?;
    Ok(())
}

/// Uninitialised elements become initialised by a cast.
fn cast_of_uninit(view: View<'_, MaybeUninit<u32>>) -> Result<View<'_, u32>> {
    view.cast()
}

/// A kernel could write 2.
fn element_bool() {
    cuda_um::UnifiedBuffer::<bool>::zeroed;
}

/// A kernel could write a value that is not a character.
fn element_char() {
    cuda_um::UnifiedBuffer::<char>::zeroed;
}

/// A kernel could write zero.
fn element_non_zero() {
    cuda_um::UnifiedBuffer::<std::num::NonZeroU32>::zeroed;
}

/// A kernel could write any address.
fn element_reference() {
    cuda_um::UnifiedBuffer::<&'static u32>::zeroed;
}

fn main() {}
