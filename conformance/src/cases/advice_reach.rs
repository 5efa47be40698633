//! The range and lifetime of advice, and refused advice.

use super::*;

/// A driver returns the lowest free address, which is the one that was just freed.
const TRIES: usize = 64;

cases! {
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
        for (what, place) in
            [(SET_READ_MOSTLY, DEVICE), (SET_PREFERRED, DEVICE), (SET_ACCESSED_BY, HOST)]
        {
            ok(c.advise(&memory, what, place));
        }
        stream.prefetch(&memory, DEVICE).sync();
        let address = memory.at();
        ok(memory.free());
        let mut again = false;
        for _ in 0..TRIES {
            let memory = c.managed(2 * MIB);
            again |= memory.at() == address;
            let told = (
                c.told(&memory, ReadMostly),
                c.told(&memory, Preferred),
                c.accessed_by(&memory),
                c.told(&memory, LastPrefetch),
            );
            if told != (0, NONE, vec![], NONE) {
                panic!(
                    "new memory has read-mostly, preferred, accessed-by, last prefetch {told:?}"
                );
            }
        }
        // The simulator reuses a freed address as late as possible (docs/simulator-fidelity.md): here it does not return it.
        c.holds(
            "the address came back, or it is the simulator",
            again || c.machine.facts.simulated,
        );
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
