//! claim 1: A guard to write without a lifetime of a borrowed buffer, whose lifetime subtyping would remove from the type of the owner.

use cuda_um::{UnifiedBuffer, buffer::HostOwnedMut};

fn misuse<'x>(buffer: &'x mut UnifiedBuffer<u32>) -> HostOwnedMut<u32, fn(&'static ())> {
    let owner: Box<fn(&'x ())> = Box::new(|_| ());
    let guard: HostOwnedMut<u32, fn(&'x ())> =
        HostOwnedMut::new(owner, |_| buffer.host_mut()).unwrap();
    guard
}

fn main() {}
