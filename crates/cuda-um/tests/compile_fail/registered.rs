//! claim 17: a scope of registered memory whose buffer leaves it, or whose slice is used.

use cuda_um::{Device, RegisteredBuffer, Result};

fn keep(_: &mut RegisteredBuffer<'static, u8>) {}

/// A registered buffer for longer than the slice's registration.
fn registered_escapes(device: Device, memory: &mut [u8]) -> Result<()> {
    RegisteredBuffer::scope(&device, memory, |registered| keep(registered))
}

/// A registered buffer, taken out of its scope by value.
fn registered_moved_out(device: Device, memory: &mut [u8]) -> Result<()> {
    RegisteredBuffer::scope(&device, memory, |registered| {
        drop::<RegisteredBuffer<'_, u8>>(*registered)
    })
}

/// A scope's buffer, taken out and replaced by one that owns a vector.
fn registered_replaced(
    device: Device,
    memory: &mut [u8],
    owned: RegisteredBuffer<'static, u8>,
) -> Result<()> {
    RegisteredBuffer::scope(&device, memory, |registered| *registered = owned)
}

/// A slice, used by the host while it is registered.
fn registered_slice_in_use(device: Device, memory: &mut [u8]) -> Result<u8> {
    RegisteredBuffer::scope(&device, memory, |_| memory[0])
}

/// The buffers of two scopes, swapped: the inner slice would stay registered when its scope is over.
fn registered_swapped(device: Device, long: &mut [u8], short: &mut [u8]) -> Result<()> {
    RegisteredBuffer::scope(&device, long, |outer| {
        RegisteredBuffer::scope(&device, short, |inner| std::mem::swap(outer, inner))
    })?
}

/// A view of a registered buffer that outlives the slice's registration.
fn registered_view_escapes(device: Device, memory: &mut [u8]) -> Result<()> {
    let mut kept = None;
    RegisteredBuffer::scope(&device, memory, |registered| {
        kept = registered.view(..).ok()
    })?;
    drop(kept);
    Ok(())
}

fn main() {}
