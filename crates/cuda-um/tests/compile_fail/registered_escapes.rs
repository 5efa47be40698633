//! claim 17: A registered buffer for longer than the slice's registration.

use cuda_um::{Device, RegisteredBuffer, Result};

fn keep(_: &mut RegisteredBuffer<'static, u8>) {}

fn misuse(device: Device, memory: &mut [u8]) -> Result<()> {
    RegisteredBuffer::scope(&device, memory, |registered| keep(registered))
}

fn main() {}
