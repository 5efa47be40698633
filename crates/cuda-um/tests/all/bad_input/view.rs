//! Views of memory that cannot do what is asked, and casts that do not fit.

use crate::bad_input::world::{cases, run};
use pollster::block_on;

/// claim 5
#[test]
fn casts_and_host_access() {
    run(cases! {
        "View::cast", "a size that is no multiple": |w| w.unified.view(..3)?.cast::<u64>()
            => InvalidArgument, ["the element type of a view cannot be u64: the view has 12 bytes, which is no multiple of 8"];
        "View::cast", "an address that is not aligned": |w| w.pinned.view(1..3)?.cast::<u64>()
            => InvalidArgument, ["the element type of a view cannot be u64: the view begins at byte 4 of buffer ", "and the alignment is 8"];
        "ViewMut::cast", "an address that is not aligned": |w| {
            w.on_device.as_view_mut().cast::<u8>()?.slice(1..5)?.cast::<f32>()
        } => InvalidArgument, ["cannot be f32: the view begins at byte 1 of buffer ", "and the alignment is 4"];
        "View::host", "device memory": |w| w.on_device.as_view().host()
            => NotSupported, ["access by the host to buffer ", "it needs managed, pinned or registered memory", "`copy_to_host`", "there is device memory"];
        "ViewMut::into_host_mut", "device memory": |w| w.on_device.as_view_mut().into_host_mut()
            => NotSupported, ["there is device memory"];
        "View::try_host", "device memory": |w| w.on_device.as_view().try_host()
            => NotSupported, ["there is device memory"];
        "View::host_async", "device memory": |w| block_on(w.on_device.as_view().host_async())
            => NotSupported, ["there is device memory"];
    });
}
