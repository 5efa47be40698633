//! An owned host guard on another thread.

use cuda_um::{Result, UnifiedBuffer};
use std::sync::Arc;

fn misuse(buffer: Arc<UnifiedBuffer<u32>>) -> Result<()> {
    let guard = buffer.host_owned()?;
    std::thread::spawn(move || guard[0]);
    Ok(())
}

fn main() {}
