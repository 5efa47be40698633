//! The location of pages, as reported by 13.4.

use super::*;

cases! {
    /// Memory that the host has populated is reported to be on the host.
    "location.host" MEMORY [cudaMemGetLocationInfo] (Migration, Since(13, 4)) |c| {
        let memory = c.managed(2 * MIB).filled(1);
        at(c, "after the host's writes", &memory, HOST);
    }
    /// Prefetched memory is reported to be at the destination.
    "location.prefetched" MEMORY [cudaMemGetLocationInfo] (Migration, Since(13, 4)) |c, stream| {
        let memory = c.managed(2 * MIB).filled(1);
        for (what, place) in [("on the device", DEVICE), ("on the host", HOST)] {
            stream.prefetch(&memory, place).sync();
            at(c, what, &memory, place);
        }
    }
    /// Memory that migrated by faults is reported to be at its new location.
    "location.faulted" MEMORY [cudaMemGetLocationInfo] (Migration, Since(13, 4)) |c, stream| {
        let memory = c.managed(2 * MIB).filled(1);
        stream.add(&memory, 1).sync();
        at(c, "after a kernel", &memory, DEVICE);
        c.is("contents", memory.value_all(), 2);
        at(c, "after the host", &memory, HOST);
    }
}

fn at(c: &Cuda<'_>, what: &str, memory: &Memory<'_>, place: Place) {
    let found = ok(c.location(memory.span()));
    c.is(what, found.kind, place.kind);
    if place.kind == 1 {
        c.is(format!("{what}, number"), found.id, place.id);
    }
}
