//! The library on one played device.

use crate::context::device::Device;
use crate::context::runtime::Runtime;
use crate::context::stream::Stream;
use crate::driver::{CopyKind, OnStream};
use crate::error::Result;
use crate::models::engine::{Engine, engine};
use crate::models::table::table;
use crate::process_end::Calls;
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
    runtime(machine).device(0).expect("a device")
}

/// A runtime that has opened no device.
pub(crate) fn runtime(machine: Engine) -> Runtime {
    // Under Miri, the models of a process have one engine, one after the other.
    engine(|cuda| *cuda = machine);
    Runtime::from_table(table()).expect("a runtime")
}

/// Work that has no effect: a copy of no bytes to this address, which tells it from other work.
pub(crate) fn work(stream: &Stream, to: usize) -> Result<()> {
    let at = without_provenance_mut(to);
    let inner = stream.inner();
    let calls = Calls::of("work")?;
    let on = OnStream::new(inner.raw(), &calls);
    #[allow(unsafe_code, reason = "a copy by address")]
    // SAFETY: the copy is of no bytes.
    unsafe {
        let kind = CopyKind::ByAddress;
        inner.api().memcpy_async(0, at, at, 0, kind, on)
    }
}

/// Returns true if what is enqueued on the stream now comes after that work.
pub(crate) fn comes_after(stream: &Stream, work: usize) -> bool {
    engine(|cuda| cuda.comes_after(stream.as_raw().addr(), work))
}
