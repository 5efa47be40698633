//! claim 1: guards that own another buffer than the one that they borrow from, or lose its lifetime.

use cuda_um::{Result, UnifiedBuffer, buffer::HostOwned, buffer::HostOwnedMut};
use std::sync::Arc;

/// A guard without a lifetime of a borrowed buffer, whose lifetime subtyping would remove from the type of the owner.
fn owned_guard_by_variance<'x>(buffer: &'x UnifiedBuffer<u32>) -> HostOwned<u32, fn(&'static ())> {
    let owner: Arc<fn(&'x ())> = Arc::new(|_| ());
    let guard: HostOwned<u32, fn(&'x ())> = HostOwned::new(owner, |_| buffer.host()).unwrap();
    guard
}

/// A guard to write without a lifetime of a borrowed buffer, whose lifetime subtyping would remove from the type of the owner.
fn owned_guard_mut_by_variance<'x>(
    buffer: &'x mut UnifiedBuffer<u32>,
) -> HostOwnedMut<u32, fn(&'static ())> {
    let owner: Box<fn(&'x ())> = Box::new(|_| ());
    let guard: HostOwnedMut<u32, fn(&'x ())> =
        HostOwnedMut::new(owner, |_| buffer.host_mut()).unwrap();
    guard
}

/// A guard that borrows from another buffer than the one that it owns.
fn owned_guard_of_another(
    owner: Arc<UnifiedBuffer<u32>>,
    other: UnifiedBuffer<u32>,
) -> Result<HostOwned<u32, UnifiedBuffer<u32>>> {
    HostOwned::new(owner, |_| other.host())
}

fn main() {}
