//! Advice: the six kinds, their range and lifetime, and refused advice.

use super::*;

/// A driver returns the lowest free address, which is the one that was just freed.
const TRIES: usize = 64;

cases! {
    /// Fresh managed memory carries no advice and was never prefetched.
    "advice.none-at-first" MEMORY [cudaMemRangeGetAttribute] (Managed) |c| {
        let memory = c.managed(64 * KIB);
        c.is("read-mostly", c.told(&memory, ReadMostly), 0);
        c.is("preferred location", c.told(&memory, Preferred), NONE);
        c.is("accessed-by", c.accessed_by(&memory), vec![]);
        c.is("last prefetch", c.told(&memory, LastPrefetch), NONE);
    }
    /// Read-mostly is set and unset.
    "advice.read-mostly" MEMORY [cudaMemAdvise, cudaMemRangeGetAttribute] (Concurrent) |c| {
        let memory = c.managed(64 * KIB);
        c.succeeds("set", c.advise(&memory, SET_READ_MOSTLY, DEVICE));
        c.is("read back", c.told(&memory, ReadMostly), 1);
        c.succeeds("unset", c.advise(&memory, UNSET_READ_MOSTLY, DEVICE));
        c.is("read back", c.told(&memory, ReadMostly), 0);
    }
    /// Read-mostly, and unsetting the preferred location, ignore the location.
    "advice.read-mostly-ignores-place" MEMORY [cudaMemAdvise, cudaMemRangeGetAttribute] (Concurrent) |c| {
        let memory = c.managed(64 * KIB);
        ok(c.advise(&memory, SET_PREFERRED, DEVICE));
        // Each attribute has the opposite value before, so that advice without an effect is detected.
        for (what, advice, place, attribute, expected) in [
            ("read-mostly", SET_READ_MOSTLY, HOST, ReadMostly, 1),
            ("not read-mostly", UNSET_READ_MOSTLY, HOST, ReadMostly, 0),
            ("read-mostly", SET_READ_MOSTLY, DEVICE, ReadMostly, 1),
            ("not read-mostly", UNSET_READ_MOSTLY, DEVICE, ReadMostly, 0),
            ("not preferred", UNSET_PREFERRED, HOST, Preferred, NONE),
        ] {
            let of = if place == HOST { "the host" } else { "a device" };
            c.succeeds(format!("{what}, with {of}"), c.advise(&memory, advice, place));
            c.is(format!("{what}, with {of}: read back"), c.told(&memory, attribute), expected);
        }
    }
    /// The preferred location is a device, and is unset.
    "advice.preferred-device" MEMORY [cudaMemAdvise, cudaMemRangeGetAttribute] (Concurrent) |c| {
        let memory = c.managed(64 * KIB);
        c.succeeds("set", c.advise(&memory, SET_PREFERRED, DEVICE));
        c.is("read back", c.told(&memory, Preferred), 0);
        c.succeeds("unset", c.advise(&memory, UNSET_PREFERRED, DEVICE));
        c.is("read back", c.told(&memory, Preferred), NONE);
    }
    /// The preferred location is the host.
    "advice.preferred-host" MEMORY [cudaMemAdvise, cudaMemRangeGetAttribute] (Concurrent) |c| {
        let memory = c.managed(64 * KIB);
        c.succeeds("set", c.advise(&memory, SET_PREFERRED, HOST));
        c.is("read back", c.told(&memory, Preferred), CPU);
    }
    /// A second preferred location replaces the first.
    "advice.preferred-replaced" MEMORY [cudaMemAdvise] (Concurrent) |c| {
        let memory = c.managed(64 * KIB);
        ok(c.advise(&memory, SET_PREFERRED, DEVICE));
        c.succeeds("set again", c.advise(&memory, SET_PREFERRED, HOST));
        c.is("read back", c.told(&memory, Preferred), CPU);
    }
    /// Accessed-by is a set: processors are added and removed one by one.
    "advice.accessed-by" MEMORY [cudaMemAdvise, cudaMemRangeGetAttribute] (Concurrent) |c| {
        let memory = c.managed(64 * KIB);
        c.succeeds("the device", c.advise(&memory, SET_ACCESSED_BY, DEVICE));
        c.is("read back", c.accessed_by(&memory), vec![0]);
        c.succeeds("the host", c.advise(&memory, SET_ACCESSED_BY, HOST));
        c.is("read back", c.accessed_by(&memory), vec![CPU, 0]);
        c.succeeds("not the device", c.advise(&memory, UNSET_ACCESSED_BY, DEVICE));
        c.is("read back", c.accessed_by(&memory), vec![CPU]);
        c.succeeds("not the host", c.advise(&memory, UNSET_ACCESSED_BY, HOST));
        c.is("read back", c.accessed_by(&memory), vec![]);
    }
    /// Setting accessed-by twice has the same effect as once.
    "advice.accessed-by-twice" MEMORY [cudaMemAdvise] (Concurrent) |c| {
        let memory = c.managed(64 * KIB);
        for _ in 0..2 {
            ok(c.advise(&memory, SET_ACCESSED_BY, DEVICE));
        }
        c.is("read back", c.accessed_by(&memory), vec![0]);
    }
    /// Several devices, and the host, are set as accessed-by together.
    "advice.accessed-by-devices" MEMORY [cudaMemAdvise, cudaMemRangeGetAttribute] (Concurrent, Devices(2)) |c| {
        let memory = c.managed(64 * KIB);
        for place in [Place::device(1), DEVICE, HOST] {
            c.succeeds("set", c.advise(&memory, SET_ACCESSED_BY, place));
        }
        c.is("read back", c.accessed_by(&memory), vec![CPU, 0, 1]);
    }
    /// The three kinds of advice are independent of each other.
    "advice.independent" MEMORY [cudaMemAdvise] (Concurrent) |c| {
        let memory = c.managed(64 * KIB);
        ok(c.advise(&memory, SET_READ_MOSTLY, DEVICE));
        ok(c.advise(&memory, SET_PREFERRED, HOST));
        ok(c.advise(&memory, SET_ACCESSED_BY, DEVICE));
        ok(c.advise(&memory, UNSET_PREFERRED, HOST));
        c.is("read-mostly", c.told(&memory, ReadMostly), 1);
        c.is("preferred location", c.told(&memory, Preferred), NONE);
        c.is("accessed-by", c.accessed_by(&memory), vec![0]);
    }
    /// Advice for a part of an allocation applies only to that part.
    "advice.part" MEMORY [cudaMemAdvise] (Concurrent) |c| {
        let memory = c.managed(4 * MIB);
        let middle = memory.at() + 2 * MIB;
        let (first, second) = (memory.at()..middle, middle..memory.at() + 4 * MIB);
        c.succeeds("the second half", c.advise(second.clone(), SET_READ_MOSTLY, DEVICE));
        c.is("the first", c.told(first, ReadMostly), 0);
        c.is("the second", c.told(second, ReadMostly), 1);
    }
    /// A range is rounded outwards to pages.
    "advice.rounded-outwards" MEMORY [cudaMemAdvise] (Concurrent) |c| {
        let memory = c.managed(64 * KIB);
        let at = memory.at() + 8 * KIB + 100;
        c.succeeds("one byte", c.advise(at..at + 1, SET_READ_MOSTLY, DEVICE));
        let page = memory.at() + 8 * KIB;
        c.is("its page", c.told(page..page + 4 * KIB, ReadMostly), 1);
        c.is("the next", c.told(page + 4 * KIB..page + 8 * KIB, ReadMostly), 0);
    }
    /// Advice survives prefetches, kernels and host accesses.
    "advice.survives" MEMORY [cudaMemAdvise, cudaMemPrefetchAsync] (Concurrent) |c, stream| {
        let memory = c.managed(2 * MIB).filled(1);
        ok(c.advise(&memory, SET_PREFERRED, DEVICE));
        ok(c.advise(&memory, SET_ACCESSED_BY, HOST));
        for place in [DEVICE, HOST] {
            stream.prefetch(&memory, place).add(&memory, 1).sync();
            memory.read_pages();
        }
        c.is("preferred location", c.told(&memory, Preferred), 0);
        c.is("accessed-by", c.accessed_by(&memory), vec![CPU]);
        c.is("contents", memory.value_all(), 3);
    }
    /// Advice ends with the memory: new memory has none, also at the same address.
    "advice.ends-with-memory" MEMORY [cudaMemAdvise, cudaFree, cudaMemRangeGetAttribute] (Concurrent) |c, stream| {
        let memory = c.managed(2 * MIB);
        ok(c.advise(&memory, SET_READ_MOSTLY, DEVICE));
        ok(c.advise(&memory, SET_PREFERRED, DEVICE));
        ok(c.advise(&memory, SET_ACCESSED_BY, HOST));
        stream.prefetch(&memory, DEVICE).sync();
        let address = memory.at();
        ok(memory.free());
        let mut again = false;
        for _ in 0..TRIES {
            let memory = c.managed(2 * MIB);
            again |= memory.at() == address;
            let told = [ReadMostly, Preferred, LastPrefetch].map(|which| c.told(&memory, which));
            assert_eq!((told, c.accessed_by(&memory)), ([0, NONE, NONE], vec![]), "new memory");
        }
        // The simulator reuses a freed address as late as possible (docs/simulator-fidelity.md): here it does not return it.
        let again = again || c.machine.facts.simulated;
        c.holds("the address came back, or it is the simulator", again);
    }
    /// An advice that does not exist is an invalid value.
    "advice.unknown" MEMORY [cudaMemAdvise] (Concurrent) |c| {
        let memory = c.managed(64 * KIB);
        for what in [0, 7, 77] {
            c.gives(format!("advice {what}"), c.advise(&memory, what, DEVICE), INVALID_VALUE);
        }
    }
    /// Advice that names a device that does not exist is refused.
    "advice.unknown-device" MEMORY [cudaMemAdvise] (Concurrent) |c| {
        let memory = c.managed(64 * KIB);
        for what in [SET_PREFERRED, SET_ACCESSED_BY] {
            let code = c.advise(&memory, what, Place::device(64));
            c.refuses(format!("advice {what} for device 64"), code);
        }
        c.is("nothing was set", c.told(&memory, Preferred), NONE);
    }
    /// A device without concurrent managed access is refused as preferred location and as accessed-by.
    "advice.without-faults" MEMORY [cudaMemAdvise] (NoConcurrent) |c| {
        let memory = c.managed(64 * KIB);
        for what in [SET_PREFERRED, SET_ACCESSED_BY] {
            c.gives(format!("advice {what}"), c.advise(&memory, what, DEVICE), INVALID_DEVICE);
        }
    }
}
