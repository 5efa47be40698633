//! A view of memory that was dropped.

use cuda_um::{Device, Result, UnifiedBuffer};

fn misuse(device: Device) -> Result<usize> {
    let view = {
        let buffer = UnifiedBuffer::<u32>::zeroed(&device, 1)?;
        let view = buffer.view(..)?;
        view
    };
    Ok(view.len())
}

fn main() {}
