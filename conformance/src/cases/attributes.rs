//! Attributes of ranges, and the location of pages as reported by 13.4.

use super::*;

cases! {
    /// An attribute with a single number requires a result size of exactly 4 bytes.
    "attributes.size" MEMORY [cudaMemRangeGetAttribute] (Concurrent) |c| {
        let room = [0u64; 8].as_mut_ptr().cast();
        let memory = c.managed(64 * KIB);
        for attribute in [ReadMostly, Preferred, LastPrefetch] {
            for bytes in [0, 2, 8] {
                let code = c.range_attribute_at(room, bytes, attribute as u32, memory.span());
                c.gives(format!("{attribute:?}, {bytes} bytes"), code, INVALID_VALUE);
            }
        }
    }
    /// The result size for accessed-by is a multiple of a device number, and not zero.
    "attributes.accessed-by-size" MEMORY [cudaMemRangeGetAttribute] (Concurrent) |c| {
        let room = [0u64; 8].as_mut_ptr().cast();
        let memory = c.managed(64 * KIB);
        for bytes in [0, 3, 10] {
            let code = c.range_attribute_at(room, bytes, AccessedBy as u32, memory.span());
            c.gives(format!("{bytes} bytes"), code, INVALID_VALUE);
        }
    }
    /// If the result of accessed-by has more places than processors, the rest is -2; if it has fewer, some processors are left out.
    "attributes.accessed-by-room" MEMORY [cudaMemRangeGetAttribute] (Concurrent) |c| {
        let memory = c.managed(64 * KIB);
        for place in [DEVICE, HOST] {
            ok(c.advise(&memory, SET_ACCESSED_BY, place));
        }
        let mut room = [7; 5];
        ok(c.range_attribute(memory.span(), AccessedBy, &mut room));
        c.is("the rest", room[2..].to_vec(), vec![NONE; 3]);
        room[..2].sort_unstable();
        c.is("the first", room[..2].to_vec(), vec![CPU, 0]);
        let mut one = [7];
        c.succeeds("room for one", c.range_attribute(memory.span(), AccessedBy, &mut one));
        c.holds("it is one of them", [CPU, 0].contains(&one[0]));
    }
    /// A range is read-mostly only if all of its pages are.
    "attributes.read-mostly-of-all" MEMORY [cudaMemRangeGetAttribute] (Concurrent) |c| {
        let (memory, first) = halves(c);
        ok(c.advise(first.clone(), SET_READ_MOSTLY, DEVICE));
        c.is("a half", c.told(first, ReadMostly), 1);
        c.is("all", c.told(&memory, ReadMostly), 0);
    }
    /// A range has a preferred location only if all of its pages have the same one.
    "attributes.preferred-of-all" MEMORY [cudaMemRangeGetAttribute] (Concurrent) |c| {
        let (memory, first) = halves(c);
        ok(c.advise(&memory, SET_PREFERRED, HOST));
        c.is("all alike", c.told(&memory, Preferred), CPU);
        ok(c.advise(first, SET_PREFERRED, DEVICE));
        c.is("two places", c.told(&memory, Preferred), NONE);
    }
    /// The accessed-by processors of a range are those that all of its pages have.
    "attributes.accessed-by-of-all" MEMORY [cudaMemRangeGetAttribute] (Concurrent) |c| {
        let (memory, first) = halves(c);
        ok(c.advise(&memory, SET_ACCESSED_BY, HOST));
        ok(c.advise(first.clone(), SET_ACCESSED_BY, DEVICE));
        c.is("a half", c.accessed_by(first), vec![CPU, 0]);
        c.is("all", c.accessed_by(&memory), vec![CPU]);
    }
    /// A range has a last prefetch location only if all of its pages were last prefetched there.
    "attributes.prefetch-of-all" MEMORY [cudaMemRangeGetAttribute] (Concurrent) |c| {
        let (memory, first) = halves(c);
        let stream = c.stream();
        stream.prefetch(first.clone(), DEVICE);
        c.is("a half", c.told(first.clone(), LastPrefetch), 0);
        c.is("all", c.told(&memory, LastPrefetch), NONE);
        stream.prefetch(&memory, HOST);
        c.is("all alike", c.told(&memory, LastPrefetch), CPU);
        stream.prefetch(first, DEVICE);
        c.is("two places", c.told(&memory, LastPrefetch), NONE);
        stream.sync();
    }
    /// A query of several attributes returns the same values as single queries.
    "attributes.together" MEMORY [cudaMemRangeGetAttributes] (Concurrent) |c, stream| {
        let memory = c.managed(2 * MIB);
        ok(c.advise(&memory, SET_READ_MOSTLY, DEVICE));
        ok(c.advise(&memory, SET_PREFERRED, HOST));
        stream.prefetch(&memory, DEVICE).sync();
        let which = [LastPrefetch, ReadMostly, Preferred];
        let values = c.succeeds("cudaMemRangeGetAttributes", c.range_attributes(&memory, &which));
        c.is("the values", values.clone(), vec![0, 1, CPU]);
        for (attribute, value) in which.into_iter().zip(values) {
            c.is(format!("{attribute:?}"), c.told(&memory, attribute), value);
        }
    }
    /// A query of zero attributes is an invalid value.
    "attributes.together-none" MEMORY [cudaMemRangeGetAttributes] (Concurrent) |c| {
        c.gives("no attribute", c.range_attributes(&c.managed(64 * KIB), &[]), INVALID_VALUE);
    }
    /// From 12.2 on, preferred location and last prefetch are also reported as type and number.
    "attributes.locations" TYPES [cudaMemRangeGetAttribute] (Concurrent, Since(12, 2)) |c, stream| {
        let memory = c.managed(2 * MIB);
        ok(c.advise(&memory, SET_PREFERRED, DEVICE));
        stream.prefetch(&memory, HOST).sync();
        c.is("preferred type", c.told(&memory, PreferredType), 1);
        c.is("preferred number", c.told(&memory, PreferredId), 0);
        c.is("prefetch type", c.told(&memory, LastPrefetchType), 2);
        // Documented as the number of a device or a node; for the host as a whole it is undefined.
        c.told(&memory, LastPrefetchId);
        ok(c.advise(&memory, UNSET_PREFERRED, DEVICE));
        c.is("no preferred type", c.told(&memory, PreferredType), 0);
    }
    /// Before 12.2 there is no attribute for the type of a location.
    "attributes.locations-late" TYPES [cudaMemRangeGetAttribute] (Concurrent, Before(12, 2)) |c| {
        let memory = c.managed(64 * KIB);
        let code = c.range_attribute(memory.span(), PreferredType, &mut [0]);
        c.gives("the type", code, INVALID_VALUE);
    }
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

/// 4 MiB, and the addresses of the first half.
fn halves<'c>(c: &'c Cuda<'c>) -> (Memory<'c>, Range<usize>) {
    let memory = c.managed(4 * MIB);
    let first = memory.at()..memory.at() + 2 * MIB;
    (memory, first)
}

fn at(c: &Cuda<'_>, what: &str, memory: &Memory<'_>, place: Place) {
    let found = ok(c.location(memory.span()));
    c.is(what, found.kind, place.kind);
    if place.kind == 1 {
        c.is(format!("{what}, number"), found.id, place.id);
    }
}
