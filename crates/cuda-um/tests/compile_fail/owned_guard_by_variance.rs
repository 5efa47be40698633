//! claim 1: A guard without a lifetime of a borrowed buffer, whose lifetime subtyping would remove from the type of the owner.

use cuda_um::{UnifiedBuffer, buffer::HostOwned};
use std::sync::Arc;

fn misuse<'x>(buffer: &'x UnifiedBuffer<u32>) -> HostOwned<u32, fn(&'static ())> {
    let owner: Arc<fn(&'x ())> = Arc::new(|_| ());
    let guard: HostOwned<u32, fn(&'x ())> = HostOwned::new(owner, |_| buffer.host()).unwrap();
    guard
}

fn main() {}
