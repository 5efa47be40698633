//! claim 17: The buffers of two scopes, swapped: the inner slice would stay registered when its scope is over.

use cuda_um::{Device, RegisteredBuffer, Result};

fn misuse(device: Device, long: &mut [u8], short: &mut [u8]) -> Result<()> {
    RegisteredBuffer::scope(&device, long, |outer| {
        RegisteredBuffer::scope(&device, short, |inner| std::mem::swap(outer, inner))
    })?
}

fn main() {}
