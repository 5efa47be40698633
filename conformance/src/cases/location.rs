//! The location of pages, as reported by 13.4.

use super::prelude::*;

const NEEDS: &[Need] = &[Need::Migration, Need::Since(13, 4)];

pub(super) const CASES: &[Case] = cases! {
    "location.host" (host):
        "Memory that the host has populated is reported to be on the host.",
        sources::MEMORY, &["cudaMemGetLocationInfo"], needs(NEEDS);
    "location.prefetched" (prefetched):
        "Prefetched memory is reported to be at the destination.",
        sources::MEMORY, &["cudaMemGetLocationInfo"], needs(NEEDS);
    "location.faulted" (faulted):
        "Memory that migrated by faults is reported to be at its new location.",
        sources::MEMORY, &["cudaMemGetLocationInfo"], needs(NEEDS);
};

fn at(c: &Cuda<'_>, what: &str, memory: &Memory<'_>, place: Place) -> Verdict {
    let Some((code, found)) = c.location_info(memory) else {
        return fail("there is no cudaMemGetLocationInfo");
    };
    c.ok("cudaMemGetLocationInfo", code)?;
    let (kind, expected) = (found.kind, place.kind);
    c.is(what, kind, expected)?;
    match place.kind {
        1 => c.is(&format!("{what}, number"), found.id, place.id),
        _ => Ok(()),
    }
}

fn host(c: &Cuda<'_>) -> Verdict {
    let memory = c.managed(2 * MIB)?;
    memory.fill_all(1);
    at(c, "after the host's writes", &memory, HOST)
}

fn prefetched(c: &Cuda<'_>) -> Verdict {
    let (memory, stream) = (c.managed(2 * MIB)?, c.stream()?);
    memory.fill_all(1);
    for (what, place) in [("on the device", DEVICE), ("on the host", HOST)] {
        c.ok("prefetch", c.prefetch(&memory, place, &stream))?;
        c.ok("synchronize", stream.synchronize())?;
        at(c, what, &memory, place)?;
    }
    Ok(())
}

fn faulted(c: &Cuda<'_>) -> Verdict {
    let (memory, stream) = (c.managed(2 * MIB)?, c.stream()?);
    memory.fill_all(1);
    c.add(&memory, 1, &stream)?;
    c.ok("synchronize", stream.synchronize())?;
    at(c, "after a kernel", &memory, DEVICE)?;
    c.is("contents", memory.value_all()?, 2)?;
    at(c, "after the host", &memory, HOST)
}
