//! claim 1: The host reads memory that a view will write.

use cuda_um::{Result, UnifiedBuffer};

fn misuse(mut buffer: UnifiedBuffer<u32>) -> Result<usize> {
    let view = buffer.view_mut(..)?;
    let host = buffer.host()?;
    Ok(view.len() + host.len())
}

fn main() {}
