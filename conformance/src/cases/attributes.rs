//! Attributes of ranges.

use super::prelude::*;
use crate::call::whole;

const GET: &[&str] = &["cudaMemRangeGetAttribute"];
const NONE: i32 = -2;
const CPU: i32 = -1;

pub(super) const CASES: &[Case] = cases! {
    "attributes.size" (size):
        "An attribute with a single number requires a result size of exactly 4 bytes.",
        sources::MEMORY, GET, needs(&[Need::Concurrent]);
    "attributes.accessed-by-size" (accessed_by_size):
        "The result size for accessed-by is a multiple of a device number, and not zero.",
        sources::MEMORY, GET, needs(&[Need::Concurrent]);
    "attributes.accessed-by-room" (accessed_by_room):
        "If the result of accessed-by has more places than processors, the rest is -2; if it has fewer, some processors are left out.",
        sources::MEMORY, GET, needs(&[Need::Concurrent]);
    "attributes.read-mostly-of-all" (read_mostly_of_all):
        "A range is read-mostly only if all of its pages are.",
        sources::MEMORY, GET, needs(&[Need::Concurrent]);
    "attributes.preferred-of-all" (preferred_of_all):
        "A range has a preferred location only if all of its pages have the same one.",
        sources::MEMORY, GET, needs(&[Need::Concurrent]);
    "attributes.accessed-by-of-all" (accessed_by_of_all):
        "The accessed-by processors of a range are those that all of its pages have.",
        sources::MEMORY, GET, needs(&[Need::Concurrent]);
    "attributes.prefetch-of-all" (prefetch_of_all):
        "A range has a last prefetch location only if all of its pages were last prefetched there.",
        sources::MEMORY, GET, needs(&[Need::Concurrent]);
    "attributes.together" (together):
        "A query of several attributes returns the same values as single queries.",
        sources::MEMORY, &["cudaMemRangeGetAttributes"], needs(&[Need::Concurrent]);
    "attributes.together-none" (together_none):
        "A query of zero attributes is an invalid value.",
        sources::MEMORY, &["cudaMemRangeGetAttributes"], needs(&[Need::Concurrent]);
    "attributes.locations" (locations):
        "From 12.2 on, preferred location and last prefetch are also reported as type and number.",
        sources::TYPES, GET, needs(&[Need::Concurrent, Need::Since(12, 2)]);
    "attributes.locations-late" (locations_late):
        "Before 12.2 there is no attribute for the type of a location.",
        sources::TYPES, GET, needs(&[Need::Concurrent, Need::Before(12, 2)]);
};

fn size(c: &Cuda<'_>) -> Verdict {
    let memory = c.managed(64 * KIB)?;
    for attribute in [
        Attribute::ReadMostly,
        Attribute::Preferred,
        Attribute::LastPrefetch,
    ] {
        for bytes in [0, 2, 8] {
            let code = c.range_attribute_of_size(&memory, attribute, bytes);
            c.gives(
                &format!("{attribute:?}, {bytes} bytes"),
                code,
                Code::INVALID_VALUE,
            )?;
        }
    }
    Ok(())
}

fn accessed_by_size(c: &Cuda<'_>) -> Verdict {
    let memory = c.managed(64 * KIB)?;
    for bytes in [0, 3, 10] {
        let code = c.range_attribute_of_size(&memory, Attribute::AccessedBy, bytes);
        c.gives(&format!("{bytes} bytes"), code, Code::INVALID_VALUE)?;
    }
    Ok(())
}

fn accessed_by_room(c: &Cuda<'_>) -> Verdict {
    let memory = c.managed(64 * KIB)?;
    for place in [DEVICE, HOST] {
        c.ok(
            "accessed-by",
            c.advise(&memory, advice::SET_ACCESSED_BY, place),
        )?;
    }
    let mut room = [7; 5];
    let code = c.range_attribute(whole(&memory), Attribute::AccessedBy, &mut room);
    c.ok("cudaMemRangeGetAttribute", code)?;
    c.is("the rest", room[2..].to_vec(), vec![NONE; 3])?;
    room[..2].sort_unstable();
    c.is("the first", room[..2].to_vec(), vec![CPU, 0])?;
    let mut one = [7];
    let code = c.range_attribute(whole(&memory), Attribute::AccessedBy, &mut one);
    c.succeeds("room for one", code)?;
    c.holds("it is one of them", [CPU, 0].contains(&one[0]))
}

/// 4 MiB, and the addresses of the first half.
fn halves<'c>(
    c: &'c Cuda<'c>,
) -> Result<(crate::call::Memory<'c>, std::ops::Range<usize>), Failure> {
    let memory = c.managed(4 * MIB)?;
    let first = memory.address()..memory.address() + 2 * MIB;
    Ok((memory, first))
}

fn read_mostly_of_all(c: &Cuda<'_>) -> Verdict {
    let (memory, first) = halves(c)?;
    c.ok(
        "advise",
        c.advise_range(first.clone(), advice::SET_READ_MOSTLY, DEVICE),
    )?;
    c.is("a half", c.attribute_in(first, Attribute::ReadMostly)?, 1)?;
    c.is("all", c.attribute_of(&memory, Attribute::ReadMostly)?, 0)
}

fn preferred_of_all(c: &Cuda<'_>) -> Verdict {
    let (memory, first) = halves(c)?;
    c.ok("advise", c.advise(&memory, advice::SET_PREFERRED, HOST))?;
    c.is(
        "all alike",
        c.attribute_of(&memory, Attribute::Preferred)?,
        CPU,
    )?;
    c.ok(
        "advise",
        c.advise_range(first, advice::SET_PREFERRED, DEVICE),
    )?;
    c.is(
        "two places",
        c.attribute_of(&memory, Attribute::Preferred)?,
        NONE,
    )
}

fn accessed_by_of_all(c: &Cuda<'_>) -> Verdict {
    let (memory, first) = halves(c)?;
    c.ok("advise", c.advise(&memory, advice::SET_ACCESSED_BY, HOST))?;
    c.ok(
        "advise",
        c.advise_range(first.clone(), advice::SET_ACCESSED_BY, DEVICE),
    )?;
    c.is("a half", c.accessed_by(first, 4)?, vec![CPU, 0])?;
    c.is("all", c.accessed_by(whole(&memory), 4)?, vec![CPU])
}

fn prefetch_of_all(c: &Cuda<'_>) -> Verdict {
    let (memory, first) = halves(c)?;
    let stream = c.stream()?;
    c.ok("prefetch", c.prefetch_range(first.clone(), DEVICE, &stream))?;
    c.is(
        "a half",
        c.attribute_in(first.clone(), Attribute::LastPrefetch)?,
        0,
    )?;
    c.is(
        "all",
        c.attribute_of(&memory, Attribute::LastPrefetch)?,
        NONE,
    )?;
    c.ok("prefetch", c.prefetch(&memory, HOST, &stream))?;
    c.is(
        "all alike",
        c.attribute_of(&memory, Attribute::LastPrefetch)?,
        CPU,
    )?;
    c.ok("prefetch", c.prefetch_range(first, DEVICE, &stream))?;
    c.is(
        "two places",
        c.attribute_of(&memory, Attribute::LastPrefetch)?,
        NONE,
    )?;
    c.ok("synchronize", stream.synchronize())
}

fn together(c: &Cuda<'_>) -> Verdict {
    let (memory, stream) = (c.managed(2 * MIB)?, c.stream()?);
    c.ok("advise", c.advise(&memory, advice::SET_READ_MOSTLY, DEVICE))?;
    c.ok("advise", c.advise(&memory, advice::SET_PREFERRED, HOST))?;
    c.ok("prefetch", c.prefetch(&memory, DEVICE, &stream))?;
    c.ok("synchronize", stream.synchronize())?;
    let which = [
        Attribute::LastPrefetch,
        Attribute::ReadMostly,
        Attribute::Preferred,
    ];
    let (code, values) = c.range_attributes(&memory, &which);
    c.succeeds("cudaMemRangeGetAttributes", code)?;
    c.is("the values", values.clone(), vec![0, 1, CPU])?;
    for (attribute, value) in which.into_iter().zip(values) {
        c.is(
            &format!("{attribute:?}"),
            c.attribute_of(&memory, attribute)?,
            value,
        )?;
    }
    Ok(())
}

fn together_none(c: &Cuda<'_>) -> Verdict {
    let memory = c.managed(64 * KIB)?;
    let (code, _) = c.range_attributes(&memory, &[]);
    c.gives("no attribute", code, Code::INVALID_VALUE)
}

fn locations(c: &Cuda<'_>) -> Verdict {
    let (memory, stream) = (c.managed(2 * MIB)?, c.stream()?);
    c.ok("advise", c.advise(&memory, advice::SET_PREFERRED, DEVICE))?;
    c.ok("prefetch", c.prefetch(&memory, HOST, &stream))?;
    c.ok("synchronize", stream.synchronize())?;
    c.is(
        "preferred type",
        c.attribute_of(&memory, Attribute::PreferredType)?,
        1,
    )?;
    c.is(
        "preferred number",
        c.attribute_of(&memory, Attribute::PreferredId)?,
        0,
    )?;
    c.is(
        "prefetch type",
        c.attribute_of(&memory, Attribute::LastPrefetchType)?,
        2,
    )?;
    // Documented as the number of a device or a node; for the host as a whole it is undefined.
    c.attribute_of(&memory, Attribute::LastPrefetchId)?;
    c.ok("advise", c.advise(&memory, advice::UNSET_PREFERRED, DEVICE))?;
    c.is(
        "no preferred type",
        c.attribute_of(&memory, Attribute::PreferredType)?,
        0,
    )
}

fn locations_late(c: &Cuda<'_>) -> Verdict {
    let memory = c.managed(64 * KIB)?;
    let code = c.range_attribute(whole(&memory), Attribute::PreferredType, &mut [0]);
    c.gives("the type", code, Code::INVALID_VALUE)
}
