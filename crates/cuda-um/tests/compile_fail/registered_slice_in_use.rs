//! A slice, used by the host while it is registered.

use cuda_um::{Device, RegisteredBuffer, Result};

fn misuse(device: Device, memory: &mut [u8]) -> Result<u8> {
    RegisteredBuffer::scope(&device, memory, |_| memory[0])
}

fn main() {}
