//! claim 17: A view of a registered buffer that outlives the slice's registration.

use cuda_um::{Device, RegisteredBuffer, Result};

fn misuse(device: Device, memory: &mut [u8]) -> Result<()> {
    let mut kept = None;
    RegisteredBuffer::scope(&device, memory, |registered| {
        kept = registered.view(..).ok()
    })?;
    drop(kept);
    Ok(())
}

fn main() {}
