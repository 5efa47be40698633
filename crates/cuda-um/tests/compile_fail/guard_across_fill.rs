//! A slice of the host, kept across a fill.

use cuda_um::{Result, Stream, UnifiedBuffer};

fn misuse(stream: Stream, mut buffer: UnifiedBuffer<u32>) -> Result<u32> {
    let view = buffer.host()?;
    buffer.fill_on(7, &stream)?;
    Ok(view[0])
}

fn main() {}
