//! A future that will read the buffer, kept across a fill.

use cuda_um::{Result, Stream, UnifiedBuffer};

async fn misuse(stream: Stream, mut buffer: UnifiedBuffer<u32>) -> Result<u32> {
    let view = buffer.host_async();
    buffer.fill_on(7, &stream)?;
    Ok(view.await?[0])
}

fn main() {}
