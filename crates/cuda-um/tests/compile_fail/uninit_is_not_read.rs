//! claim 4: The host reads memory that nothing initialised.

use cuda_um::{Device, Result, UnifiedBuffer};

fn misuse(device: Device) -> Result<()> {
    let buffer = UnifiedBuffer::<u32>::uninit(&device, 1)?;
    buffer.host()?;
    Ok(())
}

fn main() {}
