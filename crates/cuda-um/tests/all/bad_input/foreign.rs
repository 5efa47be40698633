//! Objects of another device or another runtime.

use crate::bad_input::world::{cases, run};
use cuda_um::{DeviceBuffer, Event, LaunchConfig, Location, managed::PrefetchBatch};

macro_rules! streams {
    ($($name:literal $buffer:ident),*) => {$(
        run(cases! {
            concat!($name, "::fill"), "a stream of another runtime": |w| w.$buffer.fill_on(9, &w.other.1)
                => InvalidArgument, ["belongs to another runtime"];
            concat!($name, "::copy_within"), "a stream of another runtime": |w| w.$buffer.copy_within_on(..10, 5, &w.other.1)
                => InvalidArgument, ["the buffer belongs to another runtime"];
        });
    )*};
}

/// claim 28
#[test]
fn fills_on_streams_of_another_runtime() {
    streams!("UnifiedBuffer" unified, "DeviceBuffer" on_device, "PinnedBuffer" pinned, "RegisteredBuffer" registered, "UnifiedBuffer" mapped);
}

/// claim 28: `um-backend`'s page of errors has more.
#[test]
fn objects_of_another_runtime_or_device() {
    run(cases! {
        "Stream::copy", "a stream of another runtime": |w| w.other.1.copy(&w.on_device, &mut w.unified)
            => InvalidArgument, ["the buffer belongs to another runtime"];
        "Stream::copy_range", "a stream of another runtime": |w| w.other.1.copy_range(&w.on_device, 1..5, &mut w.unified, 2)
            => InvalidArgument, ["the buffer belongs to another runtime"];
        "Stream::copy", "a source of another runtime": |w| w.stream.copy(&w.of_other, &mut w.unified)
            => InvalidArgument, ["the buffer belongs to another runtime"];
        "Stream::copy", "a target of another runtime": |w| w.stream.copy(&w.unified, &mut w.of_other)
            => InvalidArgument, ["the buffer belongs to another runtime"];
        "Stream::copy_range", "no elements, on a stream of another runtime": |w| w.other.1.copy_range(&w.unified, 3..3, &mut w.on_device, 0)
            => InvalidArgument, ["the buffer belongs to another runtime"];
        "DeviceBuffer::fill", "no elements, on a stream of another runtime": |w| DeviceBuffer::<u32>::zeroed(&w.device, 0)?.fill_on(1, &w.other.1)
            => InvalidArgument, ["belongs to another runtime"];
        "UnifiedBuffer::prefetch_on", "a stream of another runtime": |w| w.unified.prefetch_on(Location::Host, &w.other.1)
            => InvalidArgument, ["belongs to another runtime"];
        "View::prefetch_on", "a stream of another runtime": |w| w.unified.view(1..5)?.prefetch_on(Location::Device(0), &w.other.1)
            => InvalidArgument, ["belongs to another runtime"];
        "View::prefetch_on", "no elements, on a stream of another runtime": |w| w.unified.view(3..3)?.prefetch_on(Location::Host, &w.other.1)
            => InvalidArgument, ["belongs to another runtime"];
        "PrefetchBatch::prefetch_on", "a stream of another runtime": |w| {
            let mut batch = PrefetchBatch::new();
            batch.add(&w.pooled).add(&w.unified).prefetch_on(Location::Host, &w.other.1)
        } => InvalidArgument, ["the stream belongs to another runtime"];
        "PrefetchBatch::prefetch_on", "buffers of two runtimes": |w| PrefetchBatch::new().add(&w.unified).add(&w.of_other).prefetch_on(Location::Host, &w.stream)
            => InvalidArgument, ["a buffer of the batch belongs to another runtime"];
        "Stream::wait", "an event of another runtime": |w| {
            let event = w.other.1.record()?;
            w.stream.wait(&event)
        } => InvalidArgument, ["the event belongs to another runtime"];
        "Event::elapsed_since", "an event of another runtime": |w| {
            let earlier = Event::timed(&w.other.1)?;
            Event::timed(&w.stream)?.elapsed_since(&earlier)
        } => InvalidArgument, ["the earlier event belongs to another runtime"];
        "Event::elapsed_since", "an event of another device": |w| {
            let earlier = Event::timed(&w.second.1)?;
            Event::timed(&w.stream)?.elapsed_since(&earlier)
        } => InvalidArgument, ["the earlier event belongs to device 1, not to device 0"];
        "Event::elapsed_since", "an event without a time": |w| Event::timed(&w.stream)?.elapsed_since(&w.untimed)
            => InvalidArgument, ["the event cannot be without a time", "Event::timed"];
        "Kernel::launch", "a stream of another runtime": |w| w.add.launch(&w.other.1, 10, (&mut w.unified, 10u32, 1u32))
            => InvalidArgument, ["the stream belongs to another runtime"];
        "Kernel::launch", "a stream of another device": |w| w.add.launch(&w.second.1, 10, (&mut w.unified, 10u32, 1u32))
            => InvalidArgument, ["the stream belongs to device 1, not to device 0"];
        "Kernel::launch", "a buffer of another runtime": |w| w.add.launch(&w.stream, 10, (&mut w.of_other, 10u32, 1u32))
            => InvalidArgument, ["the buffer belongs to another runtime"];
        "GraphExec::launch", "a stream of another runtime": |w| w.stream.capture(|_| Ok(()))?.instantiate()?.launch(&w.other.1, ())
            => InvalidArgument, ["belongs to another runtime"];
        "Kernel::launch", "no threads": |w| launch(w, [1, 1, 1], [32, 0, 1], 0)
            => InvalidArgument, ["block y cannot be 0"];
        "Kernel::launch", "too many blocks": |w| launch(w, [1, 65_536, 1], [32, 1, 1], 0)
            => InvalidArgument, ["grid y is 65536, and the limit is 65535"];
        "Kernel::launch", "too many threads along z": |w| launch(w, [1; 3], [1, 1, 65], 0)
            => InvalidArgument, ["block z is 65, and the limit is 64"];
        "Kernel::launch", "too many threads in all": |w| launch(w, [1; 3], [1024, 2, 1], 0)
            => InvalidArgument, ["threads of a block is 2048, and the limit is 1024"];
    });
}

fn launch(
    world: &mut crate::bad_input::world::World,
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
) -> cuda_um::Result<()> {
    let config = LaunchConfig {
        grid,
        block,
        shared_bytes,
    };
    // SAFETY: the arguments match `add`.
    #[allow(unsafe_code, reason = "launches the kernel of add.ptx")]
    unsafe {
        world
            .add
            .0
            .launch(&world.stream, config, (&mut world.unified, 10u32, 1u32))
    }
}
