//! A mutable slice of the host, kept across a copy to the buffer.

use cuda_um::{DeviceBuffer, PinnedBuffer, Result, Stream};

fn misuse(stream: Stream, source: DeviceBuffer<u32>, mut buffer: PinnedBuffer<u32>) -> Result<()> {
    let mut view = buffer.host_mut()?;
    stream.copy(&source, &mut buffer)?;
    view[0] = 1;
    Ok(())
}

fn main() {}
