//! How far advice reaches, in memory and in time, and what is refused.

use super::prelude::*;
use crate::call::whole;

const NONE: i32 = -2;
const CPU: i32 = -1;

pub(super) const CASES: &[Case] = &[
    Case::new(
        "advice.part",
        "Advice for a part of an allocation is for that part alone.",
        sources::MEMORY,
        &["cudaMemAdvise"],
        part,
    )
    .needs(&[Need::Concurrent]),
    Case::new(
        "advice.rounded-outwards",
        "A range is rounded outwards to pages.",
        sources::MEMORY,
        &["cudaMemAdvise"],
        rounded_outwards,
    )
    .needs(&[Need::Concurrent]),
    Case::new(
        "advice.survives",
        "Advice survives prefetches, kernels and the host's touches.",
        sources::MEMORY,
        &["cudaMemAdvise", "cudaMemPrefetchAsync"],
        survives,
    )
    .needs(&[Need::Concurrent]),
    Case::new(
        "advice.ends-with-memory",
        "Advice ends with the memory: new memory has none, at the same address too.",
        sources::MEMORY,
        &["cudaMemAdvise", "cudaFree"],
        ends_with_memory,
    )
    .needs(&[Need::Concurrent]),
    Case::new(
        "advice.unknown",
        "An advice that does not exist is an invalid value.",
        sources::MEMORY,
        &["cudaMemAdvise"],
        unknown,
    )
    .needs(&[Need::Concurrent]),
    Case::new(
        "advice.unknown-device",
        "Advice that names a device that does not exist is refused.",
        sources::MEMORY,
        &["cudaMemAdvise"],
        unknown_device,
    )
    .needs(&[Need::Concurrent]),
    Case::new(
        "advice.without-faults",
        "A device without concurrent managed access is refused as preferred location and as accessed-by.",
        sources::MEMORY,
        &["cudaMemAdvise"],
        without_faults,
    )
    .needs(&[Need::NoConcurrent]),
];

fn part(c: &Cuda<'_>) -> Verdict {
    let memory = c.managed(4 * MIB)?;
    let middle = memory.address() + 2 * MIB;
    let (first, second) = (memory.address()..middle, middle..memory.address() + 4 * MIB);
    c.gives(
        "the second half",
        c.advise_range(second.clone(), advice::SET_READ_MOSTLY, DEVICE),
        Code::SUCCESS,
    )?;
    c.is(
        "the first",
        c.attribute_in(first, Attribute::ReadMostly)?,
        0,
    )?;
    c.is(
        "the second",
        c.attribute_in(second, Attribute::ReadMostly)?,
        1,
    )
}

fn rounded_outwards(c: &Cuda<'_>) -> Verdict {
    let memory = c.managed(64 * KIB)?;
    let at = memory.address() + 8 * KIB + 100;
    c.gives(
        "one byte",
        c.advise_range(at..at + 1, advice::SET_READ_MOSTLY, DEVICE),
        Code::SUCCESS,
    )?;
    let page = memory.address() + 8 * KIB;
    c.is(
        "its page",
        c.attribute_in(page..page + 4 * KIB, Attribute::ReadMostly)?,
        1,
    )?;
    c.is(
        "the next",
        c.attribute_in(page + 4 * KIB..page + 8 * KIB, Attribute::ReadMostly)?,
        0,
    )
}

fn survives(c: &Cuda<'_>) -> Verdict {
    let (memory, stream) = (c.managed(2 * MIB)?, c.stream()?);
    memory.fill_all(1);
    c.ok(
        "preferred",
        c.advise(&memory, advice::SET_PREFERRED, DEVICE),
    )?;
    c.ok(
        "accessed-by",
        c.advise(&memory, advice::SET_ACCESSED_BY, HOST),
    )?;
    for place in [DEVICE, HOST] {
        c.ok("prefetch", c.prefetch(&memory, place, &stream))?;
        c.add(&memory, 1, &stream)?;
        c.ok("synchronize", stream.synchronize())?;
        memory.read_pages();
    }
    c.is(
        "preferred location",
        c.attribute_of(&memory, Attribute::Preferred)?,
        0,
    )?;
    c.is("accessed-by", c.accessed_by(whole(&memory), 4)?, vec![CPU])?;
    c.is("contents", memory.value_all()?, 3)
}

fn ends_with_memory(c: &Cuda<'_>) -> Verdict {
    let memory = c.managed(2 * MIB)?;
    c.ok(
        "read-mostly",
        c.advise(&memory, advice::SET_READ_MOSTLY, DEVICE),
    )?;
    c.ok("cudaFree", memory.free())?;
    for _ in 0..4 {
        let memory = c.managed(2 * MIB)?;
        c.is(
            "read-mostly",
            c.attribute_of(&memory, Attribute::ReadMostly)?,
            0,
        )?;
    }
    Ok(())
}

fn unknown(c: &Cuda<'_>) -> Verdict {
    let memory = c.managed(64 * KIB)?;
    for what in [0, 7, 77] {
        c.gives(
            &format!("advice {what}"),
            c.advise(&memory, what, DEVICE),
            Code::INVALID_VALUE,
        )?;
    }
    Ok(())
}

fn unknown_device(c: &Cuda<'_>) -> Verdict {
    let memory = c.managed(64 * KIB)?;
    for what in [advice::SET_PREFERRED, advice::SET_ACCESSED_BY] {
        let code = c.advise(&memory, what, Place::device(64));
        c.refuses(&format!("advice {what} for device 64"), code)?;
    }
    c.is(
        "nothing was set",
        c.attribute_of(&memory, Attribute::Preferred)?,
        NONE,
    )
}

fn without_faults(c: &Cuda<'_>) -> Verdict {
    let memory = c.managed(64 * KIB)?;
    for what in [advice::SET_PREFERRED, advice::SET_ACCESSED_BY] {
        c.gives(
            &format!("advice {what}"),
            c.advise(&memory, what, DEVICE),
            Code::INVALID_DEVICE,
        )?;
    }
    Ok(())
}
