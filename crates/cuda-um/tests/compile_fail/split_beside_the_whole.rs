//! claim 2: A buffer that is used while its parts are.

use cuda_um::{Result, Stream, UnifiedBuffer};

fn misuse(mut buffer: UnifiedBuffer<u32>, stream: &Stream) -> Result<()> {
    let (mut first, _) = buffer.as_view_mut().split_at(10)?;
    let host = buffer.host()?;
    first.fill_on(host[0], stream)
}

fn main() {}
