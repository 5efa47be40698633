//! Prefetches: their reports, their order, and refused prefetches.

use super::prelude::*;

const NONE: i32 = -2;
const CPU: i32 = -1;

pub(super) const CASES: &[Case] = cases! {
    "prefetch.reported" (reported):
        "The destination of the last prefetch is reported.",
        sources::MEMORY, &["cudaMemPrefetchAsync"], needs(&[Need::Concurrent]);
    "prefetch.reported-at-once" (reported_at_once):
        "The destination is reported from the call on, before the prefetch has begun.",
        sources::MEMORY, &["cudaMemPrefetchAsync"], needs(&[Need::Concurrent]);
    "prefetch.part-reported" (part_reported):
        "A prefetch of a part is reported only for that part, rounded outwards to pages.",
        sources::MEMORY, &["cudaMemPrefetchAsync"], needs(&[Need::Concurrent]);
    "prefetch.keeps-contents" (keeps_contents):
        "Prefetches do not change the contents, in either direction and with any number of repetitions.",
        sources::MEMORY, &["cudaMemPrefetchAsync"], needs(&[Need::Concurrent]);
    "prefetch.in-order" (in_order):
        "A prefetch is ordered in its stream: after earlier work, and before later work.",
        sources::MEMORY, &["cudaMemPrefetchAsync"], needs(&[Need::Concurrent]);
    "prefetch.default-streams" (default_streams):
        "Prefetches can also be enqueued in the default streams.",
        sources::MEMORY, &["cudaMemPrefetchAsync"], needs(&[Need::Concurrent]);
    "prefetch.unknown-device" (unknown_device):
        "A prefetch to a device that does not exist is refused, and not reported.",
        sources::MEMORY, &["cudaMemPrefetchAsync"], needs(&[Need::Concurrent]);
    "prefetch.flags" (flags):
        "Flags other than 0 are an invalid value.",
        sources::MEMORY, &["cudaMemPrefetchAsync"], needs(&[Need::Concurrent, Need::Since(13, 0)]);
    "prefetch.unknown-place" (unknown_place):
        "A location type that does not exist is an invalid value.",
        sources::MEMORY, &["cudaMemPrefetchAsync"], needs(&[Need::Concurrent, Need::Since(13, 0)]);
    "prefetch.numa-node" (numa_node):
        "A prefetch to the host's NUMA node works, and is reported with this location.",
        sources::MEMORY, &["cudaMemPrefetchAsync"], needs(&[Need::Migration, Need::Since(13, 0)]);
    "prefetch.other-device" (other_device):
        "The stream may belong to a device other than the destination.",
        sources::MEMORY, &["cudaMemPrefetchAsync"], needs(&[Need::Concurrent, Need::Devices(2)]);
    "prefetch.without-faults" (without_faults):
        "A prefetch to a device without concurrent managed access is refused as an invalid device.",
        sources::MEMORY, &["cudaMemPrefetchAsync"], needs(&[Need::NoConcurrent]);
};

fn reported(c: &Cuda<'_>) -> Verdict {
    let (memory, stream) = (c.managed(2 * MIB)?, c.stream()?);
    for (what, place, number) in [("the device", DEVICE, 0), ("the host", HOST, CPU)] {
        c.succeeds(what, c.prefetch(&memory, place, &stream))?;
        c.ok("synchronize", stream.synchronize())?;
        c.is(
            "reported",
            c.attribute_of(&memory, Attribute::LastPrefetch)?,
            number,
        )?;
    }
    Ok(())
}

fn reported_at_once(c: &Cuda<'_>) -> Verdict {
    let (memory, stream) = (c.managed(2 * MIB)?, c.stream()?);
    let gate = c.gate(&stream)?;
    c.succeeds("prefetch", c.prefetch(&memory, DEVICE, &stream))?;
    c.is(
        "reported",
        c.attribute_of(&memory, Attribute::LastPrefetch)?,
        0,
    )?;
    gate.open()?;
    c.ok("synchronize", stream.synchronize())
}

fn part_reported(c: &Cuda<'_>) -> Verdict {
    let (memory, stream) = (c.managed(4 * MIB)?, c.stream()?);
    memory.fill_all(1);
    let page = memory.address() + 2 * MIB;
    let code = c.prefetch_range(page + 100..page + 200, DEVICE, &stream);
    c.succeeds("prefetch of 100 bytes", code)?;
    c.ok("synchronize", stream.synchronize())?;
    c.is(
        "its page",
        c.attribute_in(page..page + 4 * KIB, Attribute::LastPrefetch)?,
        0,
    )?;
    c.is(
        "before",
        c.attribute_in(memory.address()..page, Attribute::LastPrefetch)?,
        NONE,
    )
}

fn keeps_contents(c: &Cuda<'_>) -> Verdict {
    let (memory, stream) = (c.managed(3 * MIB + 4 * KIB)?, c.stream()?);
    memory.fill_all(41);
    memory.fill(100..200, 42);
    for place in [DEVICE, HOST, DEVICE, DEVICE, HOST, HOST] {
        c.succeeds("prefetch", c.prefetch(&memory, place, &stream))?;
    }
    c.ok("synchronize", stream.synchronize())?;
    c.is("before", memory.value(0..100)?, 41)?;
    c.is("between", memory.value(100..200)?, 42)?;
    c.is("behind", memory.value(200..memory.len())?, 41)
}

fn in_order(c: &Cuda<'_>) -> Verdict {
    let (memory, stream) = (c.managed(2 * MIB)?, c.stream()?);
    memory.fill_all(0);
    let gate = c.gate(&stream)?;
    for place in [DEVICE, HOST, DEVICE, HOST] {
        c.ok("prefetch", c.prefetch(&memory, place, &stream))?;
        c.add(&memory, 1, &stream)?;
    }
    c.gives("cudaStreamQuery", stream.query(), Code::NOT_READY)?;
    gate.open()?;
    c.ok("synchronize", stream.synchronize())?;
    c.is("contents", memory.value_all()?, 4)
}

fn default_streams(c: &Cuda<'_>) -> Verdict {
    let memory = c.managed(2 * MIB)?;
    for raw in [0, LEGACY, PER_THREAD] {
        let stream = c.default_stream(raw);
        memory.fill_all(raw as u32);
        c.succeeds(
            &format!("stream {raw}"),
            c.prefetch(&memory, DEVICE, &stream),
        )?;
        c.add(&memory, 1, &stream)?;
        c.ok("synchronize", stream.synchronize())?;
        c.is("contents", memory.value_all()?, raw as u32 + 1)?;
    }
    Ok(())
}

fn unknown_device(c: &Cuda<'_>) -> Verdict {
    let (memory, stream) = (c.managed(64 * KIB)?, c.stream()?);
    c.gives(
        "device 64",
        c.prefetch(&memory, Place::device(64), &stream),
        Code::INVALID_DEVICE,
    )?;
    c.is(
        "reported",
        c.attribute_of(&memory, Attribute::LastPrefetch)?,
        NONE,
    )
}

fn flags(c: &Cuda<'_>) -> Verdict {
    let (memory, stream) = (c.managed(64 * KIB)?, c.stream()?);
    for flags in [1, 1 << 31] {
        let Some(code) = c.prefetch_with_flags(&memory, flags, &stream) else {
            return fail("there is no form with flags");
        };
        c.gives(&format!("flags {flags}"), code, Code::INVALID_VALUE)?;
    }
    Ok(())
}

fn unknown_place(c: &Cuda<'_>) -> Verdict {
    let (memory, stream) = (c.managed(64 * KIB)?, c.stream()?);
    for kind in [0, 77] {
        let code = c.prefetch(&memory, Place { kind, id: 0 }, &stream);
        c.gives(&format!("kind {kind}"), code, Code::INVALID_VALUE)?;
    }
    Ok(())
}

fn numa_node(c: &Cuda<'_>) -> Verdict {
    let (memory, stream) = (c.managed(2 * MIB)?, c.stream()?);
    memory.fill_all(6);
    c.ok("prefetch", c.prefetch(&memory, DEVICE, &stream))?;
    let node = Place::numa(0);
    c.succeeds("prefetch", c.prefetch(&memory, node, &stream))?;
    c.ok("synchronize", stream.synchronize())?;
    let kind = c.attribute_of(&memory, Attribute::LastPrefetchType)?;
    c.is("kind of place", kind, 3)?;
    let number = c.attribute_of(&memory, Attribute::LastPrefetchId)?;
    c.is("number", number, 0)?;
    c.is("contents", memory.value_all()?, 6)
}

fn other_device(c: &Cuda<'_>) -> Verdict {
    let (memory, stream) = (c.managed(2 * MIB)?, c.stream()?);
    memory.fill_all(6);
    c.succeeds("prefetch", c.prefetch(&memory, Place::device(1), &stream))?;
    c.ok("synchronize", stream.synchronize())?;
    c.is(
        "reported",
        c.attribute_of(&memory, Attribute::LastPrefetch)?,
        1,
    )?;
    c.is("contents", memory.value_all()?, 6)
}

fn without_faults(c: &Cuda<'_>) -> Verdict {
    let (memory, stream) = (c.managed(64 * KIB)?, c.stream()?);
    memory.fill_all(6);
    c.gives(
        "prefetch",
        c.prefetch(&memory, DEVICE, &stream),
        Code::INVALID_DEVICE,
    )?;
    c.is("contents", memory.value_all()?, 6)
}
