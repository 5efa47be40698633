//! The six kinds of advice, read back.

use super::prelude::*;
use crate::call::whole;

const NONE: i32 = -2;
const CPU: i32 = -1;

pub(super) const CASES: &[Case] = cases! {
    "advice.none-at-first" (none_at_first):
        "Fresh managed memory carries no advice and was never prefetched.",
        sources::MEMORY, &["cudaMemRangeGetAttribute"], needs(&[Need::Managed]);
    "advice.read-mostly" (read_mostly):
        "Read-mostly is set and unset.",
        sources::MEMORY, &["cudaMemAdvise", "cudaMemRangeGetAttribute"], needs(&[Need::Concurrent]);
    "advice.read-mostly-ignores-place" (ignores_place):
        "Read-mostly, and unsetting the preferred location, ignore the location.",
        sources::MEMORY, &["cudaMemAdvise", "cudaMemRangeGetAttribute"], needs(&[Need::Concurrent]);
    "advice.preferred-device" (preferred_device):
        "The preferred location is a device, and is unset.",
        sources::MEMORY, &["cudaMemAdvise", "cudaMemRangeGetAttribute"], needs(&[Need::Concurrent]);
    "advice.preferred-host" (preferred_host):
        "The preferred location is the host.",
        sources::MEMORY, &["cudaMemAdvise", "cudaMemRangeGetAttribute"], needs(&[Need::Concurrent]);
    "advice.preferred-replaced" (preferred_replaced):
        "A second preferred location replaces the first.",
        sources::MEMORY, &["cudaMemAdvise"], needs(&[Need::Concurrent]);
    "advice.accessed-by" (accessed_by):
        "Accessed-by is a set: processors are added and removed one by one.",
        sources::MEMORY, &["cudaMemAdvise", "cudaMemRangeGetAttribute"], needs(&[Need::Concurrent]);
    "advice.accessed-by-twice" (accessed_by_twice):
        "Setting accessed-by twice has the same effect as once.",
        sources::MEMORY, &["cudaMemAdvise"], needs(&[Need::Concurrent]);
    "advice.accessed-by-devices" (accessed_by_devices):
        "Several devices, and the host, are set as accessed-by together.",
        sources::MEMORY, &["cudaMemAdvise", "cudaMemRangeGetAttribute"], needs(&[Need::Concurrent, Need::Devices(2)]);
    "advice.independent" (independent):
        "The three kinds of advice are independent of each other.",
        sources::MEMORY, &["cudaMemAdvise"], needs(&[Need::Concurrent]);
};

fn none_at_first(c: &Cuda<'_>) -> Verdict {
    let memory = c.managed(64 * KIB)?;
    c.is(
        "read-mostly",
        c.attribute_of(&memory, Attribute::ReadMostly)?,
        0,
    )?;
    c.is(
        "preferred location",
        c.attribute_of(&memory, Attribute::Preferred)?,
        NONE,
    )?;
    c.is("accessed-by", c.accessed_by(whole(&memory), 4)?, vec![])?;
    c.is(
        "last prefetch",
        c.attribute_of(&memory, Attribute::LastPrefetch)?,
        NONE,
    )
}

fn read_mostly(c: &Cuda<'_>) -> Verdict {
    let memory = c.managed(64 * KIB)?;
    c.succeeds("set", c.advise(&memory, advice::SET_READ_MOSTLY, DEVICE))?;
    c.is(
        "read back",
        c.attribute_of(&memory, Attribute::ReadMostly)?,
        1,
    )?;
    c.succeeds(
        "unset",
        c.advise(&memory, advice::UNSET_READ_MOSTLY, DEVICE),
    )?;
    c.is(
        "read back",
        c.attribute_of(&memory, Attribute::ReadMostly)?,
        0,
    )
}

fn ignores_place(c: &Cuda<'_>) -> Verdict {
    let memory = c.managed(64 * KIB)?;
    c.ok(
        "preferred",
        c.advise(&memory, advice::SET_PREFERRED, DEVICE),
    )?;
    // Each attribute has the opposite value before, so that advice without an effect is detected.
    for (what, advice, place, attribute, expected) in [
        (
            "read-mostly",
            advice::SET_READ_MOSTLY,
            HOST,
            Attribute::ReadMostly,
            1,
        ),
        (
            "not read-mostly",
            advice::UNSET_READ_MOSTLY,
            HOST,
            Attribute::ReadMostly,
            0,
        ),
        (
            "read-mostly",
            advice::SET_READ_MOSTLY,
            DEVICE,
            Attribute::ReadMostly,
            1,
        ),
        (
            "not read-mostly",
            advice::UNSET_READ_MOSTLY,
            DEVICE,
            Attribute::ReadMostly,
            0,
        ),
        (
            "not preferred",
            advice::UNSET_PREFERRED,
            HOST,
            Attribute::Preferred,
            NONE,
        ),
    ] {
        let of = if place == HOST {
            "the host"
        } else {
            "a device"
        };
        let code = c.advise(&memory, advice, place);
        c.succeeds(&format!("{what}, with {of}"), code)?;
        c.is(
            &format!("{what}, with {of}: read back"),
            c.attribute_of(&memory, attribute)?,
            expected,
        )?;
    }
    Ok(())
}

fn preferred_device(c: &Cuda<'_>) -> Verdict {
    let memory = c.managed(64 * KIB)?;
    c.succeeds("set", c.advise(&memory, advice::SET_PREFERRED, DEVICE))?;
    c.is(
        "read back",
        c.attribute_of(&memory, Attribute::Preferred)?,
        0,
    )?;
    c.succeeds("unset", c.advise(&memory, advice::UNSET_PREFERRED, DEVICE))?;
    c.is(
        "read back",
        c.attribute_of(&memory, Attribute::Preferred)?,
        NONE,
    )
}

fn preferred_host(c: &Cuda<'_>) -> Verdict {
    let memory = c.managed(64 * KIB)?;
    c.succeeds("set", c.advise(&memory, advice::SET_PREFERRED, HOST))?;
    c.is(
        "read back",
        c.attribute_of(&memory, Attribute::Preferred)?,
        CPU,
    )
}

fn preferred_replaced(c: &Cuda<'_>) -> Verdict {
    let memory = c.managed(64 * KIB)?;
    c.ok("set", c.advise(&memory, advice::SET_PREFERRED, DEVICE))?;
    c.succeeds("set again", c.advise(&memory, advice::SET_PREFERRED, HOST))?;
    c.is(
        "read back",
        c.attribute_of(&memory, Attribute::Preferred)?,
        CPU,
    )
}

fn accessed_by(c: &Cuda<'_>) -> Verdict {
    let memory = c.managed(64 * KIB)?;
    c.succeeds(
        "the device",
        c.advise(&memory, advice::SET_ACCESSED_BY, DEVICE),
    )?;
    c.is("read back", c.accessed_by(whole(&memory), 4)?, vec![0])?;
    c.succeeds("the host", c.advise(&memory, advice::SET_ACCESSED_BY, HOST))?;
    c.is("read back", c.accessed_by(whole(&memory), 4)?, vec![CPU, 0])?;
    c.succeeds(
        "not the device",
        c.advise(&memory, advice::UNSET_ACCESSED_BY, DEVICE),
    )?;
    c.is("read back", c.accessed_by(whole(&memory), 4)?, vec![CPU])?;
    c.succeeds(
        "not the host",
        c.advise(&memory, advice::UNSET_ACCESSED_BY, HOST),
    )?;
    c.is("read back", c.accessed_by(whole(&memory), 4)?, vec![])
}

fn accessed_by_twice(c: &Cuda<'_>) -> Verdict {
    let memory = c.managed(64 * KIB)?;
    for _ in 0..2 {
        c.ok("set", c.advise(&memory, advice::SET_ACCESSED_BY, DEVICE))?;
    }
    c.is("read back", c.accessed_by(whole(&memory), 4)?, vec![0])
}

fn accessed_by_devices(c: &Cuda<'_>) -> Verdict {
    let memory = c.managed(64 * KIB)?;
    for place in [Place::device(1), DEVICE, HOST] {
        c.succeeds("set", c.advise(&memory, advice::SET_ACCESSED_BY, place))?;
    }
    c.is(
        "read back",
        c.accessed_by(whole(&memory), 4)?,
        vec![CPU, 0, 1],
    )
}

fn independent(c: &Cuda<'_>) -> Verdict {
    let memory = c.managed(64 * KIB)?;
    c.ok(
        "read-mostly",
        c.advise(&memory, advice::SET_READ_MOSTLY, DEVICE),
    )?;
    c.ok("preferred", c.advise(&memory, advice::SET_PREFERRED, HOST))?;
    c.ok(
        "accessed-by",
        c.advise(&memory, advice::SET_ACCESSED_BY, DEVICE),
    )?;
    c.ok(
        "not preferred",
        c.advise(&memory, advice::UNSET_PREFERRED, HOST),
    )?;
    c.is(
        "read-mostly",
        c.attribute_of(&memory, Attribute::ReadMostly)?,
        1,
    )?;
    c.is(
        "preferred location",
        c.attribute_of(&memory, Attribute::Preferred)?,
        NONE,
    )?;
    c.is("accessed-by", c.accessed_by(whole(&memory), 4)?, vec![0])
}
