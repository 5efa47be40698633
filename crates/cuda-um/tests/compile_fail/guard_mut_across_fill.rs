//! A mutable slice of the host, kept across a fill.

use cuda_um::{Result, Stream, UnifiedBuffer};

fn misuse(stream: Stream, mut buffer: UnifiedBuffer<u32>) -> Result<()> {
    let mut view = buffer.host_mut()?;
    buffer.fill_on(7, &stream)?;
    view[0] = 1;
    Ok(())
}

fn main() {}
