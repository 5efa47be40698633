//! A copy from a buffer to its own memory.

use cuda_um::{PinnedBuffer, Result};

fn misuse(mut buffer: PinnedBuffer<u32>) -> Result<()> {
    let mut view = buffer.host_mut()?;
    buffer.copy_to_host(&mut view)
}

fn main() {}
