//! The slice of a guard, kept after the guard is dropped.

use cuda_um::{Result, UnifiedBuffer};

fn misuse(buffer: UnifiedBuffer<u32>) -> Result<u32> {
    let slice: &[u32] = {
        let guard = buffer.host()?;
        &guard[..]
    };
    Ok(slice[0])
}

fn main() {}
