//! claim 17: A buffer of a scope's lifetime by value: swapped with the scope's own, it would take the borrowed memory out of the scope.

use cuda_um::buffer::kind::{Owned, Registered};
use cuda_um::{Device, RegisteredBuffer, Result};

type Of<'s> = RegisteredBuffer<'s, u8>;

fn from_vec<'s>(device: &Device, _: &mut Of<'s>) -> Result<Of<'s>> {
    RegisteredBuffer::from_vec(device, vec![0; 8])
}

fn zeroed_like<'s>(scope: &mut Of<'s>) -> Result<Of<'s>> {
    scope.zeroed_like(8)
}

fn uninit<'s>(device: &Device, _: &mut Of<'s>) {
    let _buffer = RegisteredBuffer::<'s, u8>::uninit(device, 8);
}

/// What the other functions need that return buffers of every kind.
fn owned<'s>(_: &mut Of<'s>) {
    fn is_owned<K: Owned>() {}
    is_owned::<Registered<'s>>();
}

fn main() {}
