//! A guard that borrows from another buffer than the one that it owns.

use cuda_um::{HostOwned, Result, UnifiedBuffer};
use std::sync::Arc;

fn misuse(owner: Arc<UnifiedBuffer<u32>>, other: UnifiedBuffer<u32>) -> Result<HostOwned<u32>> {
    HostOwned::new(owner, |_| other.host())
}

fn main() {}
