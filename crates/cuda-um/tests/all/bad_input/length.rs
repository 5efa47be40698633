//! Two lengths that must be equal, but are not.

use crate::bad_input::world::{cases, run};
use cuda_um::DeviceBuffer;
use pollster::block_on;

macro_rules! copies {
    ($($name:literal $buffer:ident),*) => {$(
        run(cases! {
            concat!($name, "::copy_from_host"), "too short a slice": |w| w.$buffer.copy_from_host(&[5; 999])
                => InvalidArgument, ["copy_from_host: 1000 elements expected, 999 found"];
            concat!($name, "::copy_from_host"), "no slice": |w| w.$buffer.copy_from_host(&[])
                => InvalidArgument, ["copy_from_host: 1000 elements expected, 0 found"];
            concat!($name, "::copy_to_host"), "too long a slice": |w| w.$buffer.copy_to_host(&mut [5; 1001])
                => InvalidArgument, ["copy_to_host: 1000 elements expected, 1001 found"];
            concat!($name, "::copy_from_host_async"), "too long a slice": |w| block_on(w.$buffer.copy_from_host_async(&[5; 1001]))
                => InvalidArgument, ["copy_from_host_async: 1000 elements expected, 1001 found"];
            concat!($name, "::copy_to_host_async"), "too short a slice": |w| block_on(w.$buffer.copy_to_host_async(&mut [5; 1]))
                => InvalidArgument, ["copy_to_host_async: 1000 elements expected, 1 found"];
        });
    )*};
}

#[test]
fn slices_of_another_length() {
    copies!("UnifiedBuffer" unified, "DeviceBuffer" on_device, "PinnedBuffer" pinned, "RegisteredBuffer" registered, "UnifiedBuffer" mapped);
}

#[test]
fn buffers_of_another_length() {
    run(cases! {
        "Stream::copy", "a shorter target": |w| w.stream.copy(&w.unified, &mut w.shorter)
            => InvalidArgument, ["copy: 999 elements expected, 1000 found"];
        "Stream::copy", "an empty source": |w| {
            let empty = DeviceBuffer::<u32>::zeroed(&w.device, 0)?;
            w.stream.copy(&empty, &mut w.unified)
        } => InvalidArgument, ["copy: 1000 elements expected, 0 found"];
    });
}
