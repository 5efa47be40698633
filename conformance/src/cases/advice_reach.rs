//! The range and lifetime of advice, and refused advice.

use super::prelude::*;
use crate::call::whole;

const NONE: i32 = -2;
const CPU: i32 = -1;
/// A driver returns the lowest free address, which is the one that was just freed.
const TRIES: usize = 64;

pub(super) const CASES: &[Case] = cases! {
    "advice.part" (part):
        "Advice for a part of an allocation applies only to that part.",
        sources::MEMORY, &["cudaMemAdvise"], needs(&[Need::Concurrent]);
    "advice.rounded-outwards" (rounded_outwards):
        "A range is rounded outwards to pages.",
        sources::MEMORY, &["cudaMemAdvise"], needs(&[Need::Concurrent]);
    "advice.survives" (survives):
        "Advice survives prefetches, kernels and host accesses.",
        sources::MEMORY, &["cudaMemAdvise", "cudaMemPrefetchAsync"], needs(&[Need::Concurrent]);
    "advice.ends-with-memory" (ends_with_memory):
        "Advice ends with the memory: new memory has none, also at the same address.",
        sources::MEMORY, &["cudaMemAdvise", "cudaFree", "cudaMemRangeGetAttribute"], needs(&[Need::Concurrent]);
    "advice.unknown" (unknown):
        "An advice that does not exist is an invalid value.",
        sources::MEMORY, &["cudaMemAdvise"], needs(&[Need::Concurrent]);
    "advice.unknown-device" (unknown_device):
        "Advice that names a device that does not exist is refused.",
        sources::MEMORY, &["cudaMemAdvise"], needs(&[Need::Concurrent]);
    "advice.without-faults" (without_faults):
        "A device without concurrent managed access is refused as preferred location and as accessed-by.",
        sources::MEMORY, &["cudaMemAdvise"], needs(&[Need::NoConcurrent]);
};

fn part(c: &Cuda<'_>) -> Verdict {
    let memory = c.managed(4 * MIB)?;
    let middle = memory.address() + 2 * MIB;
    let (first, second) = (memory.address()..middle, middle..memory.address() + 4 * MIB);
    c.succeeds(
        "the second half",
        c.advise_range(second.clone(), advice::SET_READ_MOSTLY, DEVICE),
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
    c.succeeds(
        "one byte",
        c.advise_range(at..at + 1, advice::SET_READ_MOSTLY, DEVICE),
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
    let (memory, stream) = (c.managed(2 * MIB)?, c.stream()?);
    for (what, place) in [
        (advice::SET_READ_MOSTLY, DEVICE),
        (advice::SET_PREFERRED, DEVICE),
        (advice::SET_ACCESSED_BY, HOST),
    ] {
        c.ok("cudaMemAdvise", c.advise(&memory, what, place))?;
    }
    c.ok("prefetch", c.prefetch(&memory, DEVICE, &stream))?;
    c.ok("synchronize", stream.synchronize())?;
    let address = memory.address();
    c.ok("cudaFree", memory.free())?;
    let mut again = false;
    for _ in 0..TRIES {
        let memory = c.managed(2 * MIB)?;
        again |= memory.address() == address;
        let told = (
            c.attribute_of(&memory, Attribute::ReadMostly)?,
            c.attribute_of(&memory, Attribute::Preferred)?,
            c.accessed_by(whole(&memory), 4)?,
            c.attribute_of(&memory, Attribute::LastPrefetch)?,
        );
        if told != (0, NONE, vec![], NONE) {
            return fail(format!(
                "new memory has read-mostly, preferred, accessed-by, last prefetch {told:?}"
            ));
        }
    }
    // The simulator reuses a freed address as late as possible (docs/simulator-fidelity.md): here it does not return it.
    c.holds(
        "the address came back, or it is the simulator",
        again || c.machine.facts.simulated,
    )
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
