//! Memory that is not allocated with CUDA, on devices that access pageable memory.

use super::counting::{counted, exactly};
use super::prelude::*;
use crate::call::whole;

const NEEDS: &[Need] = &[Need::Pageable];
const MIGRATES: &[Need] = &[Need::PageableMigration, Need::Counters];
const IN_PLACE: &[Need] = &[Need::HostPageTables, Need::Counters];

pub(super) const CASES: &[Case] = cases! {
    "system_memory.kernel" (kernel):
        "The device accesses any memory owned by the host process: mapped, on the heap, and on the stack.",
        sources::GUIDE_SYSTEM, &["cuLaunchKernel"], needs(NEEDS);
    "system_memory.prefetch" (prefetch):
        "A prefetch may refer to system-allocated memory, to the device and to the host, and keeps the contents.",
        sources::MEMORY, &["cudaMemPrefetchAsync"], needs(NEEDS);
    "system_memory.advice" (advice_of_every_kind):
        "Advice of every kind may refer to system-allocated memory, and can be unset.",
        sources::MEMORY, &["cudaMemAdvise"], needs(NEEDS);
    "system_memory.unmapped" (unmapped):
        "Advice and prefetch of a range that is not a valid, host-accessible region return an error.",
        sources::MEMORY, &["cudaMemAdvise", "cudaMemPrefetchAsync"], needs(NEEDS);
    "system_memory.range-attributes" (range_attributes):
        "Range attributes are only of managed memory.",
        sources::MEMORY, &["cudaMemRangeGetAttribute", "cudaMemRangeGetAttributes"], needs(NEEDS);
    "system_memory.batch" (batch):
        "Batches of prefetches and discards may refer to system-allocated memory beside managed memory.",
        sources::MEMORY, &["cudaMemPrefetchBatchAsync", "cudaMemDiscardBatchAsync"], needs(&[Need::Pageable, Need::Since(13, 0)]);
    "system_memory.pointer" (pointer):
        "System-allocated memory is unregistered, and the device accesses it by the host's pointer.",
        sources::UNIFIED, &["cudaPointerGetAttributes"], needs(NEEDS);
    "system_memory.memset" (memset):
        "Memset and copies accept any unified memory pointer.",
        sources::GUIDE_SYSTEM, &["cudaMemsetAsync", "cudaMemcpy"], needs(NEEDS);
    "system_memory.location" (location):
        "The location of system-allocated memory can be queried.",
        sources::MEMORY, &["cudaMemGetLocationInfo"], needs(&[Need::PageableMigration, Need::Since(13, 4)]);
    "system_memory.faults" (faults):
        "On software-coherent systems page faults move system-allocated memory to the processor that accesses it, in both directions.",
        sources::GUIDE_COHERENCE, &["cuLaunchKernel"], needs(MIGRATES);
    "system_memory.prefetched" (prefetched):
        "On software-coherent systems a prefetch moves system-allocated memory once, and its user then does not fault.",
        sources::MEMORY, &["cudaMemPrefetchAsync", "cuLaunchKernel"], needs(MIGRATES);
    "system_memory.first-touch" (first_touch):
        "The placement policy of malloc, new and mmap is first touch: what a kernel touches first does not move.",
        sources::GUIDE_SYSTEM, &["cuLaunchKernel"], needs(MIGRATES);
    "system_memory.read-mostly" (read_mostly):
        "Read-mostly system-allocated memory is duplicated on a device that does not use the host's page tables.",
        sources::MEMORY, &["cudaMemAdvise", "cuLaunchKernel"], needs(MIGRATES);
    "system_memory.in-place" (in_place):
        "Hardware-coherent systems need no page faults for emulating coherency or migrating memory, also with read-mostly and accessed-by.",
        sources::GUIDE_COHERENCE, &["cudaMemAdvise", "cuLaunchKernel"], needs(IN_PLACE);
};

/// Adds 1 to every word of an address range by a kernel.
fn add_at(c: &Cuda<'_>, words: &mut [u32], stream: &Stream<'_>) -> Verdict {
    let (address, count) = (words.as_mut_ptr() as usize, words.len());
    let shape = crate::call::driver::linear(count);
    let code = c.add_at(address, count as u32, 1, shape, stream)?;
    c.ok("cuLaunchKernel", code)?;
    c.ok("synchronize", stream.synchronize())
}

fn kernel(c: &Cuda<'_>) -> Verdict {
    let (mapped, stream) = (c.system(64 * KIB)?, c.stream()?);
    mapped.fill_all(4);
    c.add(&mapped, 1, &stream)?;
    c.ok("synchronize", stream.synchronize())?;
    c.is("mapped", mapped.value_all()?, 5)?;
    let (mut heap, mut stack) = (vec![6u32; 1000], [7u32; 100]);
    add_at(c, &mut heap, &stream)?;
    add_at(c, &mut stack, &stream)?;
    c.is("on the heap", heap == [7; 1000], true)?;
    c.is("on the stack", stack == [8; 100], true)
}

fn prefetch(c: &Cuda<'_>) -> Verdict {
    let (memory, stream) = (c.system(3 * MIB)?, c.stream()?);
    memory.fill_all(5);
    for (what, place) in [("to the device", DEVICE), ("to the host", HOST)] {
        c.succeeds(what, c.prefetch(&memory, place, &stream))?;
        c.add(&memory, 1, &stream)?;
        c.ok("synchronize", stream.synchronize())?;
    }
    c.is("contents", memory.value_all()?, 7)
}

fn advice_of_every_kind(c: &Cuda<'_>) -> Verdict {
    let (memory, stream) = (c.system(3 * MIB)?, c.stream()?);
    memory.fill_all(5);
    for (what, place, kinds) in [
        (
            "read-mostly",
            HOST,
            [advice::SET_READ_MOSTLY, advice::UNSET_READ_MOSTLY],
        ),
        (
            "preferred",
            DEVICE,
            [advice::SET_PREFERRED, advice::UNSET_PREFERRED],
        ),
        (
            "preferred on the host",
            HOST,
            [advice::SET_PREFERRED, advice::UNSET_PREFERRED],
        ),
        (
            "accessed-by",
            DEVICE,
            [advice::SET_ACCESSED_BY, advice::UNSET_ACCESSED_BY],
        ),
    ] {
        for (change, kind) in ["set", "unset"].into_iter().zip(kinds) {
            c.succeeds(&format!("{what}, {change}"), c.advise(&memory, kind, place))?;
            c.add(&memory, 1, &stream)?;
        }
    }
    c.ok("synchronize", stream.synchronize())?;
    c.is("contents", memory.value_all()?, 13)
}

fn unmapped(c: &Cuda<'_>) -> Verdict {
    let (null, stream) = (0..64 * KIB, c.stream()?);
    let code = c.advise_range(null.clone(), advice::SET_READ_MOSTLY, DEVICE);
    c.refuses("advice", code)?;
    c.refuses("prefetch", c.prefetch_range(null, DEVICE, &stream))
}

fn range_attributes(c: &Cuda<'_>) -> Verdict {
    let memory = c.system(64 * KIB)?;
    memory.fill_all(1);
    let code = c.range_attribute(whole(&memory), Attribute::ReadMostly, &mut [0]);
    c.refuses("one", code)?;
    let (code, _) = c.range_attributes(&memory, &[Attribute::ReadMostly, Attribute::Preferred]);
    c.refuses("several", code)
}

fn batch(c: &Cuda<'_>) -> Verdict {
    let (memory, managed, stream) = (c.system(3 * MIB)?, c.managed(3 * MIB)?, c.stream()?);
    let all = [whole(&memory), whole(&managed)];
    for own in [&memory, &managed] {
        own.fill_all(5);
    }
    let code = c.prefetch_batch(&all, &[(DEVICE, 0)], false, 0, &stream);
    c.succeeds("prefetch", code.unwrap_or(Code::NOT_SUPPORTED))?;
    for own in [&memory, &managed] {
        c.add(own, 1, &stream)?;
    }
    c.ok("synchronize", stream.synchronize())?;
    c.is("the system's", memory.value_all()?, 6)?;
    c.is("the managed", managed.value_all()?, 6)?;
    let code = c.discard_batch(&all, 0, &stream);
    c.succeeds("discard", code.unwrap_or(Code::NOT_SUPPORTED))?;
    c.ok("synchronize", stream.synchronize())?;
    memory.fill_all(8);
    c.add(&memory, 1, &stream)?;
    c.ok("synchronize", stream.synchronize())?;
    c.is("written after the discard", memory.value_all()?, 9)
}

fn pointer(c: &Cuda<'_>) -> Verdict {
    let memory = c.system(64 * KIB)?;
    memory.fill_all(1);
    let found = c.pointer(memory.address())?;
    c.is("kind", found.kind, 0)?;
    c.holds("the host's pointer", found.host_pointer == memory.address())?;
    c.holds(
        "the device's pointer",
        found.device_pointer == memory.address(),
    )
}

fn memset(c: &Cuda<'_>) -> Verdict {
    let (memory, managed, stream) = (c.system(3 * MIB)?, c.managed(3 * MIB)?, c.stream()?);
    memory.fill_all(5);
    c.succeeds("memset", c.set_async(&memory, 1, memory.bytes(), &stream))?;
    c.ok("synchronize", stream.synchronize())?;
    c.is("contents", memory.value_all()?, 0x0101_0101)?;
    for (what, kind) in [
        ("default", kind::DEFAULT),
        ("device to device", kind::DEVICE_TO_DEVICE),
    ] {
        memory.fill_all(kind);
        c.succeeds(what, c.copy(&managed, &memory, kind))?;
        c.ok("synchronize", c.synchronize())?;
        c.is("the copy", managed.value_all()?, kind)?;
    }
    Ok(())
}

fn location(c: &Cuda<'_>) -> Verdict {
    let (memory, stream) = (c.system(2 * MIB)?, c.stream()?);
    memory.fill_all(1);
    for (what, place) in [("on the device", DEVICE), ("on the host", HOST)] {
        c.ok("prefetch", c.prefetch(&memory, place, &stream))?;
        c.ok("synchronize", stream.synchronize())?;
        let Some((code, found)) = c.location_info(&memory) else {
            return fail("there is no cudaMemGetLocationInfo");
        };
        c.ok("cudaMemGetLocationInfo", code)?;
        c.is(what, found.kind, place.kind)?;
    }
    Ok(())
}

fn faults(c: &Cuda<'_>) -> Verdict {
    let bytes = 3 * MIB;
    let (memory, stream) = (c.system(bytes)?, c.stream()?);
    memory.fill_all(0);
    for round in 0..2 {
        let here = |what: &str| format!("round {round}, {what}");
        let moved = exactly(bytes, 0).by_gpu_faults();
        counted(c, &here("a kernel"), moved, || c.add(&memory, 1, &stream))?;
        counted(c, &here("again"), exactly(0, 0), || {
            c.add(&memory, 1, &stream)
        })?;
        let back = exactly(0, bytes).by_host_faults();
        counted(c, &here("the host"), back, || {
            c.is("contents", memory.value_all()?, 2 * (round + 1))
        })?;
    }
    Ok(())
}

fn prefetched(c: &Cuda<'_>) -> Verdict {
    let bytes = 3 * MIB;
    let (memory, stream) = (c.system(bytes)?, c.stream()?);
    memory.fill_all(1);
    counted(c, "to the device", exactly(bytes, 0), || {
        c.ok("prefetch", c.prefetch(&memory, DEVICE, &stream))
    })?;
    counted(c, "a kernel", exactly(0, 0), || c.add(&memory, 1, &stream))?;
    counted(c, "to the host", exactly(0, bytes), || {
        c.ok("prefetch", c.prefetch(&memory, HOST, &stream))
    })?;
    counted(c, "the host", exactly(0, 0), || {
        c.is("contents", memory.value_all()?, 2)
    })
}

fn first_touch(c: &Cuda<'_>) -> Verdict {
    let bytes = 3 * MIB;
    let (memory, stream) = (c.system(bytes)?, c.stream()?);
    let here = exactly(0, 0).by_gpu_faults();
    counted(c, "a kernel", here, || c.add(&memory, 1, &stream))?;
    counted(c, "a kernel again", exactly(0, 0), || {
        c.add(&memory, 1, &stream)
    })?;
    let back = exactly(0, bytes).by_host_faults();
    counted(c, "the host", back, || {
        c.is("contents", memory.value_all()?, 2)
    })
}

fn read_mostly(c: &Cuda<'_>) -> Verdict {
    let bytes = 2 * MIB;
    let (memory, out, stream) = (c.system(bytes)?, c.device_memory(bytes)?, c.stream()?);
    memory.fill_all(3);
    c.ok(
        "read-mostly",
        c.advise(&memory, advice::SET_READ_MOSTLY, DEVICE),
    )?;
    let copied = exactly(bytes, 0).by_gpu_faults();
    counted(c, "a kernel reads", copied, || {
        c.read(&memory, &out, &stream)
    })?;
    counted(c, "both read", exactly(0, 0), || {
        c.read(&memory, &out, &stream)?;
        c.is("the host reads", memory.value_all()?, 3)
    })
}

fn in_place(c: &Cuda<'_>) -> Verdict {
    let (memory, stream) = (c.system(3 * MIB)?, c.stream()?);
    memory.fill_all(0);
    for (round, kind) in [
        None,
        Some(advice::SET_READ_MOSTLY),
        Some(advice::SET_ACCESSED_BY),
    ]
    .into_iter()
    .enumerate()
    {
        if let Some(kind) = kind {
            c.ok("advice", c.advise(&memory, kind, DEVICE))?;
        }
        counted(c, &format!("round {round}"), exactly(0, 0), || {
            c.add(&memory, 1, &stream)?;
            c.ok("synchronize", stream.synchronize())?;
            c.is("contents", memory.value_all()?, round as u32 + 1)
        })?;
    }
    Ok(())
}
