//! Two views of one buffer, both to be written.

use cuda_um::{Result, UnifiedBuffer};

fn misuse(mut buffer: UnifiedBuffer<u32>) -> Result<usize> {
    let first = buffer.view_mut(..1)?;
    let second = buffer.view_mut(..1)?;
    Ok(first.len() + second.len())
}

fn main() {}
