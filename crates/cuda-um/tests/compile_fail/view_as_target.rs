//! claim 2: A copy to a view that only reads.

use cuda_um::{DeviceBuffer, Result, Stream};

fn misuse(stream: &Stream, source: &DeviceBuffer<u32>, target: &DeviceBuffer<u32>) -> Result<()> {
    let mut view = target.view(..)?;
    stream.copy(source, &mut view)
}

fn main() {}
