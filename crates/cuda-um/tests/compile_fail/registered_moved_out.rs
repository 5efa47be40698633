//! claim 17: A registered buffer, taken out of its scope by value.

use cuda_um::{Device, RegisteredBuffer, Result};

fn misuse(device: Device, memory: &mut [u8]) -> Result<()> {
    RegisteredBuffer::scope(&device, memory, |registered| {
        drop::<RegisteredBuffer<'_, u8>>(*registered)
    })
}

fn main() {}
