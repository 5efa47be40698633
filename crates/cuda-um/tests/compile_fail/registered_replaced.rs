//! claim 17: A scope's buffer, taken out and replaced by one that owns a vector.

use cuda_um::{Device, RegisteredBuffer, Result};

fn misuse(device: Device, memory: &mut [u8], owned: RegisteredBuffer<'static, u8>) -> Result<()> {
    RegisteredBuffer::scope(&device, memory, |registered| *registered = owned)
}

fn main() {}
