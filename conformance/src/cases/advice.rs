//! The six kinds of advice, read back.

use super::*;

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
}
