//! Prefetches of one buffer, and their refusals.

use crate::buffer::view::View;
use crate::context::device::Device;
use crate::context::stream::Stream;
use crate::context::tracker::Access;
use crate::driver::location::Location;
use crate::error::{Error, Result};
use crate::managed::batch::prefetch;
use std::fmt::Display;

pub(super) fn migrate<T>(view: View<'_, T>, location: Location, stream: &Stream) -> Result<()> {
    let raw = view.raw;
    // A loop repeats this case. `prefetch` does the same, but makes an operation first.
    if stream.leaves_out(raw.home, location, || raw.pages.is_at(location))? {
        return Ok(());
    }
    if view.bytes().is_empty() || !raw.migrates() {
        stream.check_runtime(raw.device(), "the stream")?;
        raw.device().runtime().check_location(location)?;
        return check_migrates(view);
    }
    prefetch(&[view.part(Access::Move)], location, stream, "the stream").map(drop)
}

pub(crate) fn check_migrates<T>(view: View<'_, T>) -> Result<()> {
    if view.raw.migrates() || view.raw.bytes() == 0 {
        return Ok(());
    }
    Err(not_managed(view, "a prefetch of"))
}

pub(super) fn not_managed<T>(view: View<'_, T>, call: impl Display) -> Error {
    Error::NotSupported {
        what: format!("{call} {}", view.raw.title()),
        needs: "managed memory".to_owned(),
        have: view.kind_in_words(),
    }
}

pub(super) fn check_places(device: &Device, location: Location, stream: &Stream) -> Result<()> {
    device
        .runtime()
        .check_migration_to(location, "a prefetch")?;
    for device in [device.state(), stream.inner().device()] {
        let ordinal = device.ordinal;
        let what = || format!("a prefetch to {location} on a stream of device {ordinal}");
        device.check_concurrent_access(what)?;
    }
    Ok(())
}
