//! A slice of memory that was dropped.

use cuda_um::{Device, Result, UnifiedBuffer};

fn misuse(device: Device) -> Result<u32> {
    let view = {
        let buffer = UnifiedBuffer::<u32>::zeroed(&device, 1)?;
        let guard = buffer.host()?;
        guard
    };
    Ok(view[0])
}

fn main() {}
