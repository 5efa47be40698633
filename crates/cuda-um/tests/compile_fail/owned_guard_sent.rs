//! An owned host guard on another thread.

use cuda_um::{HostOwned, Result, UnifiedBuffer};
use std::sync::Arc;

fn misuse(buffer: Arc<UnifiedBuffer<u32>>) -> Result<()> {
    let guard = HostOwned::new(buffer, |buffer| buffer.host())?;
    std::thread::spawn(move || guard[0]);
    Ok(())
}

fn main() {}
