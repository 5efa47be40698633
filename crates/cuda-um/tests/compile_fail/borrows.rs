//! claims 1, 2 and 26: buffers that are used while a guard, a view, a future or another argument of the call has them.

use cuda_um::{
    Device, DeviceBuffer, Kernel, LaunchConfig, PinnedBuffer, Result, Stream, UnifiedBuffer,
    ViewMut,
};

/// A mutable slice of the host, kept across a copy to the buffer.
fn guard_mut_across_copy_in(
    stream: Stream,
    source: DeviceBuffer<u32>,
    mut buffer: PinnedBuffer<u32>,
) -> Result<()> {
    let mut view = buffer.host_mut()?;
    stream.copy(&source, &mut buffer)?;
    view[0] = 1;
    Ok(())
}

/// A mutable slice of the host, kept across a copy from the buffer.
fn guard_mut_across_copy_out(
    stream: Stream,
    mut buffer: PinnedBuffer<u32>,
    mut target: DeviceBuffer<u32>,
) -> Result<()> {
    let mut view = buffer.host_mut()?;
    stream.copy(&buffer, &mut target)?;
    view[0] = 1;
    Ok(())
}

/// A mutable slice of the host, kept across a fill.
fn guard_mut_across_fill(stream: Stream, mut buffer: UnifiedBuffer<u32>) -> Result<()> {
    let mut view = buffer.host_mut()?;
    buffer.fill_on(7, &stream)?;
    view[0] = 1;
    Ok(())
}

/// The host writes while a kernel reads.
fn guard_mut_across_read_launch(
    kernel: Kernel,
    stream: Stream,
    mut buffer: UnifiedBuffer<u32>,
) -> Result<()> {
    let mut view = buffer.host_mut()?;
    unsafe { kernel.launch(&stream, LaunchConfig::linear(1, 1), (&buffer,))? };
    view[0] = 1;
    Ok(())
}

/// A host guard of a part of a view while a fill writes the view.
fn guard_of_part_across_fill(mut view: ViewMut<'_, u32>, stream: &Stream) -> Result<u32> {
    let guard = view.host()?;
    view.fill_on(1, stream)?;
    Ok(guard[0])
}

/// The part of a mutable view that is read while the view is written.
fn view_of_view_across_fill(mut view: ViewMut<'_, u32>, stream: &Stream) -> Result<u32> {
    let part = view.as_view();
    view.fill_on(1, stream)?;
    part.read_one(0)
}

/// The host reads memory that a view will write.
fn mutable_view_across_host(mut buffer: UnifiedBuffer<u32>) -> Result<usize> {
    let view = buffer.view_mut(..)?;
    let host = buffer.host()?;
    Ok(view.len() + host.len())
}

/// A buffer that is used while its parts are.
fn split_beside_the_whole(mut buffer: UnifiedBuffer<u32>, stream: &Stream) -> Result<()> {
    let (mut first, _) = buffer.as_view_mut().split_at(10)?;
    let host = buffer.host()?;
    first.fill_on(host[0], stream)
}

/// A future that will read the buffer, kept across a fill.
async fn future_across_fill(stream: Stream, mut buffer: UnifiedBuffer<u32>) -> Result<u32> {
    let view = buffer.host_async();
    buffer.fill_on(7, &stream)?;
    Ok(view.await?[0])
}

/// A copy with the same buffer as source and target.
fn copy_onto_itself(stream: Stream, mut buffer: DeviceBuffer<u32>) -> Result<()> {
    stream.copy(&buffer, &mut buffer)
}

/// A copy from a buffer to its own memory.
fn copy_to_host_slice_of_itself(mut buffer: PinnedBuffer<u32>) -> Result<()> {
    let mut view = buffer.host_mut()?;
    buffer.copy_to_host(&mut view)
}

/// A slice of memory that was freed.
fn guard_across_close(buffer: UnifiedBuffer<u32>) -> Result<u32> {
    let view = buffer.host()?;
    buffer.close()?;
    Ok(view[0])
}

/// A buffer that was closed.
fn use_after_close(buffer: UnifiedBuffer<u32>) -> Result<usize> {
    let close = UnifiedBuffer::close;
    close(buffer)?;
    Ok(buffer.len())
}

/// One buffer, written twice by one launch.
fn two_write_arguments(
    kernel: Kernel,
    stream: Stream,
    mut buffer: UnifiedBuffer<u32>,
) -> Result<()> {
    unsafe {
        kernel.launch(
            &stream,
            LaunchConfig::linear(1, 1),
            (&mut buffer, &mut buffer),
        )
    }
}

/// A view of memory that was dropped.
fn view_outlives_buffer(device: Device) -> Result<usize> {
    let view = {
        let buffer = UnifiedBuffer::<u32>::zeroed(&device, 1)?;
        let view = buffer.view(..)?;
        view
    };
    Ok(view.len())
}

/// One buffer, read and written by one launch.
fn read_and_write_argument(
    kernel: Kernel,
    stream: Stream,
    mut buffer: UnifiedBuffer<u32>,
) -> Result<()> {
    unsafe { kernel.launch(&stream, LaunchConfig::linear(1, 1), (&buffer, &mut buffer)) }
}

/// A slice of the host, kept across a fill.
fn guard_across_fill(stream: Stream, mut buffer: UnifiedBuffer<u32>) -> Result<u32> {
    let view = buffer.host()?;
    buffer.fill_on(7, &stream)?;
    Ok(view[0])
}

/// A slice of memory that was dropped.
fn guard_outlives_buffer(device: Device) -> Result<u32> {
    let view = {
        let buffer = UnifiedBuffer::<u32>::zeroed(&device, 1)?;
        let guard = buffer.host()?;
        guard
    };
    Ok(view[0])
}

/// The slice of a guard, kept after the guard is dropped.
fn slice_outlives_guard(buffer: UnifiedBuffer<u32>) -> Result<u32> {
    let slice: &[u32] = {
        let guard = buffer.host()?;
        &guard[..]
    };
    Ok(slice[0])
}

/// Two views of one buffer, both to be written.
fn two_mutable_views(mut buffer: UnifiedBuffer<u32>) -> Result<usize> {
    let first = buffer.view_mut(..1)?;
    let second = buffer.view_mut(..1)?;
    Ok(first.len() + second.len())
}

fn main() {}
