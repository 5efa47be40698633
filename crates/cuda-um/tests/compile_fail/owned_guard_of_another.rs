//! claim 1: A guard that borrows from another buffer than the one that it owns.

use cuda_um::{Result, UnifiedBuffer, buffer::HostOwned};
use std::sync::Arc;

type Buffer = UnifiedBuffer<u32>;

fn misuse(owner: Arc<Buffer>, other: Buffer) -> Result<HostOwned<u32, Buffer>> {
    HostOwned::new(owner, |_| other.host())
}

fn main() {}
