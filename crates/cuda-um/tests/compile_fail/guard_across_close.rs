//! claim 26: A slice of memory that was freed.

use cuda_um::{Result, UnifiedBuffer};

fn misuse(buffer: UnifiedBuffer<u32>) -> Result<u32> {
    let view = buffer.host()?;
    buffer.close()?;
    Ok(view[0])
}

fn main() {}
