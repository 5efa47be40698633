//! An owned host guard on another thread.

use cuda_um::{Result, UnifiedBuffer, buffer::HostOwned};
use std::sync::Arc;

fn misuse(buffer: Arc<UnifiedBuffer<u32>>) -> Result<()> {
    let guard = HostOwned::new(buffer, |buffer| buffer.host())?;
    std::thread::spawn(move || guard[0]);
    Ok(())
}

fn main() {}
