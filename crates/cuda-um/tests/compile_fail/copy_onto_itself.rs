//! A copy with the same buffer as source and target.

use cuda_um::{DeviceBuffer, Result, Stream};

fn misuse(stream: Stream, mut buffer: DeviceBuffer<u32>) -> Result<()> {
    stream.copy(&buffer, &mut buffer)
}

fn main() {}
