//! The library on one played device.

use crate::context::device::Device;
use crate::context::runtime::Runtime;
use crate::context::stream::Stream;
use crate::driver::CopyKind;
use crate::error::Result;
use crate::models::engine::{Engine, engine};
use crate::models::table::table;
use std::ptr::without_provenance_mut;

/// A device with so many bytes of memory.
pub(crate) fn device_of(bytes: usize) -> Device {
    device(Engine::new(bytes, true))
}

/// A device without concurrent managed access.
pub(crate) fn gated_device() -> Device {
    device(Engine::new(0, false))
}

fn device(machine: Engine) -> Device {
    // Under Miri, the models of a process have one engine, one after the other.
    *engine() = machine;
    let runtime = Runtime::from_table(table()).expect("a runtime");
    runtime.device(0).expect("a device")
}

/// Work that has no effect but its number.
pub(crate) fn work(stream: &Stream, number: usize) -> Result<()> {
    let at = without_provenance_mut(number);
    let inner = stream.inner();
    #[allow(unsafe_code, reason = "a copy by address")]
    // SAFETY: the copy is of no bytes.
    unsafe {
        let kind = CopyKind::ByAddress;
        inner.api().memcpy_async(0, at, at, 0, kind, inner.raw())
    }
}
