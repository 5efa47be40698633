//! claim 26: A buffer that was closed.

use cuda_um::{Result, UnifiedBuffer};

fn misuse(buffer: UnifiedBuffer<u32>) -> Result<usize> {
    let close = UnifiedBuffer::close;
    close(buffer)?;
    Ok(buffer.len())
}

fn main() {}
