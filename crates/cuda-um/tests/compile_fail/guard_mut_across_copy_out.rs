//! A mutable slice of the host, kept across a copy from the buffer.

use cuda_um::{DeviceBuffer, PinnedBuffer, Result, Stream};

fn misuse(
    stream: Stream,
    mut buffer: PinnedBuffer<u32>,
    mut target: DeviceBuffer<u32>,
) -> Result<()> {
    let mut view = buffer.host_mut()?;
    stream.copy(&buffer, &mut target)?;
    view[0] = 1;
    Ok(())
}

fn main() {}
