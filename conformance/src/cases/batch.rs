//! Batches of prefetches and discards.

use super::prelude::*;
use crate::call::whole;

const NEEDS: &[Need] = &[Need::Concurrent, Need::Since(13, 0)];
const PREFETCH: &[&str] = &["cudaMemPrefetchBatchAsync"];
const DISCARD: &[&str] = &["cudaMemDiscardBatchAsync"];
const BOTH: &[&str] = &["cudaMemDiscardAndPrefetchBatchAsync"];

pub(super) const CASES: &[Case] = cases! {
    "batch.prefetch" (prefetch):
        "A batch prefetches every range, and keeps the contents.",
        sources::MEMORY, PREFETCH, needs(NEEDS);
    "batch.places" (places):
        "Each location applies to the ranges from its index up to the index of the next location.",
        sources::MEMORY, PREFETCH, needs(NEEDS);
    "batch.default-stream" (default_stream):
        "Batches are refused in the legacy default stream.",
        sources::MEMORY, &["cudaMemPrefetchBatchAsync", "cudaMemDiscardBatchAsync"], needs(NEEDS);
    "batch.flags" (flags):
        "Flags other than 0 are an invalid value.",
        sources::MEMORY, PREFETCH, needs(NEEDS);
    "batch.empty" (empty):
        "A batch without ranges, or without locations, is an invalid value.",
        sources::MEMORY, PREFETCH, needs(NEEDS);
    "batch.indices" (indices):
        "The indices of the locations begin at 0 and are below the number of ranges.",
        sources::MEMORY, PREFETCH, needs(NEEDS);
    "batch.foreign" (foreign):
        "A range of device memory is refused.",
        sources::MEMORY, PREFETCH, needs(NEEDS);
    "batch.discard" (discard):
        "Data written after a discard are kept; the discard is ordered in its stream.",
        sources::MEMORY, DISCARD, needs(NEEDS);
    "batch.discard-leaves-the-rest" (discard_leaves_the_rest):
        "A discard of a part does not change the rest.",
        sources::MEMORY, DISCARD, needs(NEEDS);
    "batch.discard-and-prefetch" (discard_and_prefetch):
        "A combined discard and prefetch is reported as a prefetch, and data that a kernel then writes are kept.",
        sources::MEMORY, BOTH, needs(NEEDS);
    "batch.discard-moves-nothing" (discard_moves_nothing):
        "Discarded memory is prefetched without moving its bytes.",
        sources::MEMORY, BOTH, needs(&[Need::Migration, Need::Counters, Need::Since(13, 0)]);
    "batch.discard-moves-nothing-home" (discard_moves_nothing_home):
        "Memory that is discarded on the device is prefetched to the host without moving its bytes.",
        sources::MEMORY, BOTH, needs(&[Need::Migration, Need::Counters, Need::Since(13, 0)]);
};

/// Unwraps a call that this version has.
fn there(code: Option<Code>) -> Result<Code, Failure> {
    code.ok_or_else(|| Failure("there is no such call".to_owned()))
}

fn prefetch(c: &Cuda<'_>) -> Verdict {
    let stream = c.stream()?;
    let all = [
        c.managed(64 * KIB)?,
        c.managed(2 * MIB)?,
        c.managed(3 * MIB)?,
    ];
    all.iter().for_each(|memory| memory.fill_all(9));
    let ranges = [whole(&all[0]), whole(&all[1]), whole(&all[2])];
    let code = c.prefetch_batch(&ranges, &[(DEVICE, 0)], false, 0, &stream);
    c.succeeds("cudaMemPrefetchBatchAsync", there(code)?)?;
    c.ok("synchronize", stream.synchronize())?;
    for memory in &all {
        c.is(
            "reported",
            c.attribute_of(memory, Attribute::LastPrefetch)?,
            0,
        )?;
        c.is("contents", memory.value_all()?, 9)?;
    }
    Ok(())
}

fn places(c: &Cuda<'_>) -> Verdict {
    let stream = c.stream()?;
    let all = [
        c.managed(2 * MIB)?,
        c.managed(2 * MIB)?,
        c.managed(2 * MIB)?,
    ];
    let ranges = [whole(&all[0]), whole(&all[1]), whole(&all[2])];
    let code = c.prefetch_batch(&ranges, &[(DEVICE, 0), (HOST, 2)], false, 0, &stream);
    c.succeeds("cudaMemPrefetchBatchAsync", there(code)?)?;
    c.ok("synchronize", stream.synchronize())?;
    for (memory, place) in all.iter().zip([0, 0, -1]) {
        c.is(
            "reported",
            c.attribute_of(memory, Attribute::LastPrefetch)?,
            place,
        )?;
    }
    Ok(())
}

fn default_stream(c: &Cuda<'_>) -> Verdict {
    let memory = c.managed(2 * MIB)?;
    for raw in [0, LEGACY] {
        let stream = c.default_stream(raw);
        let code = c.prefetch_batch(&[whole(&memory)], &[(DEVICE, 0)], false, 0, &stream);
        c.gives(
            &format!("prefetch, stream {raw}"),
            there(code)?,
            Code::INVALID_VALUE,
        )?;
        let code = c.discard_batch(&[whole(&memory)], 0, &stream);
        c.gives(
            &format!("discard, stream {raw}"),
            there(code)?,
            Code::INVALID_VALUE,
        )?;
    }
    Ok(())
}

fn flags(c: &Cuda<'_>) -> Verdict {
    let (memory, stream) = (c.managed(2 * MIB)?, c.stream()?);
    let code = c.prefetch_batch(&[whole(&memory)], &[(DEVICE, 0)], false, 1, &stream);
    c.gives("flags 1", there(code)?, Code::INVALID_VALUE)
}

fn empty(c: &Cuda<'_>) -> Verdict {
    let (memory, stream) = (c.managed(2 * MIB)?, c.stream()?);
    let code = c.prefetch_batch(&[], &[(DEVICE, 0)], false, 0, &stream);
    c.gives("no range", there(code)?, Code::INVALID_VALUE)?;
    let code = c.prefetch_batch(&[whole(&memory)], &[], false, 0, &stream);
    c.gives("no place", there(code)?, Code::INVALID_VALUE)
}

fn indices(c: &Cuda<'_>) -> Verdict {
    let (memory, other, stream) = (c.managed(2 * MIB)?, c.managed(2 * MIB)?, c.stream()?);
    let ranges = [whole(&memory), whole(&other)];
    for (what, places) in [
        ("not from 0", vec![(DEVICE, 1)]),
        ("beyond the ranges", vec![(DEVICE, 0), (HOST, 2)]),
    ] {
        let code = c.prefetch_batch(&ranges, &places, false, 0, &stream);
        c.gives(what, there(code)?, Code::INVALID_VALUE)?;
    }
    Ok(())
}

fn foreign(c: &Cuda<'_>) -> Verdict {
    let (memory, stream) = (c.device_memory(2 * MIB)?, c.stream()?);
    let code = c.prefetch_batch(&[whole(&memory)], &[(DEVICE, 0)], false, 0, &stream);
    c.refuses("device memory", there(code)?)
}

fn discard(c: &Cuda<'_>) -> Verdict {
    let (memory, stream) = (c.managed(2 * MIB)?, c.stream()?);
    memory.fill_all(5);
    let code = c.discard_batch(&[whole(&memory)], 0, &stream);
    c.succeeds("cudaMemDiscardBatchAsync", there(code)?)?;
    c.ok(
        "memset behind it",
        c.set_async(&memory, 1, memory.bytes(), &stream),
    )?;
    c.ok("synchronize", stream.synchronize())?;
    c.is("contents", memory.value_all()?, 0x0101_0101)
}

fn discard_leaves_the_rest(c: &Cuda<'_>) -> Verdict {
    let (memory, stream) = (c.managed(6 * MIB)?, c.stream()?);
    memory.fill_all(5);
    let start = memory.address() + 2 * MIB;
    let middle = start..start + 2 * MIB;
    let code = c.discard_batch(&[middle], 0, &stream);
    c.succeeds("cudaMemDiscardBatchAsync", there(code)?)?;
    c.ok("synchronize", stream.synchronize())?;
    let half = MIB / 2;
    c.is("before", memory.value(0..half)?, 5)?;
    c.is("behind", memory.value(2 * half..3 * half)?, 5)
}

fn discard_and_prefetch(c: &Cuda<'_>) -> Verdict {
    let (memory, stream) = (c.managed(2 * MIB)?, c.stream()?);
    memory.fill_all(5);
    let code = c.prefetch_batch(&[whole(&memory)], &[(DEVICE, 0)], true, 0, &stream);
    c.succeeds("cudaMemDiscardAndPrefetchBatchAsync", there(code)?)?;
    c.ok(
        "memset behind it",
        c.set_async(&memory, 2, memory.bytes(), &stream),
    )?;
    c.ok("synchronize", stream.synchronize())?;
    c.is(
        "reported",
        c.attribute_of(&memory, Attribute::LastPrefetch)?,
        0,
    )?;
    c.is("contents", memory.value_all()?, 0x0202_0202)
}

fn discard_moves_nothing(c: &Cuda<'_>) -> Verdict {
    let (memory, stream) = (c.managed(4 * MIB)?, c.stream()?);
    memory.fill_all(5);
    super::counting::counted(c, "to the device", super::counting::exactly(0, 0), || {
        let code = c.prefetch_batch(&[whole(&memory)], &[(DEVICE, 0)], true, 0, &stream);
        c.ok("cudaMemDiscardAndPrefetchBatchAsync", there(code)?)
    })
}

fn discard_moves_nothing_home(c: &Cuda<'_>) -> Verdict {
    let (memory, stream) = (c.managed(4 * MIB)?, c.stream()?);
    let code = c.prefetch_batch(&[whole(&memory)], &[(DEVICE, 0)], false, 0, &stream);
    c.ok("cudaMemPrefetchBatchAsync", there(code)?)?;
    c.ok(
        "memset on the device",
        c.set_async(&memory, 2, memory.bytes(), &stream),
    )?;
    super::counting::counted(c, "to the host", super::counting::exactly(0, 0), || {
        let code = c.prefetch_batch(&[whole(&memory)], &[(HOST, 0)], true, 0, &stream);
        c.ok("cudaMemDiscardAndPrefetchBatchAsync", there(code)?)
    })
}
