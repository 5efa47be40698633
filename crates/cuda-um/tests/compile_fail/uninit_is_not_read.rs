//! The host reads memory that nothing initialised.

use cuda_um::{Device, Result, UnifiedBuffer, UnifiedOptions};

fn misuse(device: Device) -> Result<()> {
    let buffer = UnifiedBuffer::<u32>::uninit(&device, 1, UnifiedOptions::default())?;
    buffer.host()?;
    Ok(())
}

fn main() {}
