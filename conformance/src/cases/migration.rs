//! Migrations and faults: counted, and compared between machines.
//!
//! Bytes must agree. Numbers of faults, if they are not zero, may differ by a factor.

use super::counting::{counted, exactly};
use super::prelude::*;

/// Managed memory faults, and migrations can be counted.
const NEEDS: &[Need] = &[Need::Migration, Need::Counters];
const PREFETCH: &[&str] = &["cudaMallocManaged", "cudaMemPrefetchAsync"];
const PREFETCH_AND_KERNEL: &[&str] = &[
    "cudaMallocManaged",
    "cudaMemPrefetchAsync",
    "cuLaunchKernel",
];
const KERNEL: &[&str] = &["cudaMallocManaged", "cuLaunchKernel"];
const ADVISED: &[&str] = &["cudaMemAdvise", "cuLaunchKernel"];

pub(super) const CASES: &[Case] = cases! {
    "migration.prefetch-to-device" (prefetch_to_device):
        "A prefetch to the device moves all memory that the host has populated, once and without a fault.",
        sources::GUIDE_MANAGED, PREFETCH_AND_KERNEL, needs(NEEDS);
    "migration.prefetch-to-host" (prefetch_to_host):
        "A prefetch to the host moves all memory that is on the device, once and without a fault.",
        sources::GUIDE_MANAGED, PREFETCH_AND_KERNEL, needs(NEEDS);
    "migration.prefetch-of-what-is-there" (prefetch_of_what_is_there):
        "A prefetch of memory that is already at the destination moves nothing.",
        sources::GUIDE_MANAGED, PREFETCH, needs(NEEDS);
    "migration.kernel-writes" (kernel_writes):
        "A kernel that writes memory that the host has populated moves all of it by faults, once.",
        sources::GUIDE_MANAGED, KERNEL, needs(NEEDS);
    "migration.kernel-reads" (kernel_reads):
        "A kernel that reads memory that the host has populated moves all of it by faults, once.",
        sources::GUIDE_MANAGED, KERNEL, needs(NEEDS);
    "migration.host-touches" (host_touches):
        "Host accesses to memory that is on the device move all of it back by faults, once.",
        sources::GUIDE_MANAGED, PREFETCH_AND_KERNEL, needs(NEEDS);
    "migration.fresh-on-device" (fresh_on_device):
        "If a kernel accesses memory first, the memory is populated on the device, and nothing moves.",
        sources::GUIDE_MANAGED, KERNEL, needs(NEEDS);
    "migration.fresh-on-host" (fresh_on_host):
        "If the host accesses memory first, the memory is populated on the host, and nothing moves.",
        sources::GUIDE_MANAGED, &["cudaMallocManaged"], needs(NEEDS);
    "migration.fresh-prefetched" (fresh_prefetched):
        "A prefetch of untouched memory populates it; nothing moves, and a kernel does not fault.",
        sources::GUIDE_MANAGED, PREFETCH_AND_KERNEL, needs(NEEDS);
    "migration.read-mostly-duplicates" (read_mostly_duplicates):
        "A prefetch of read-mostly memory makes a copy; then reads on both sides move nothing.",
        sources::GUIDE_MANAGED, &["cudaMemAdvise", "cudaMemPrefetchAsync", "cuLaunchKernel"], needs(NEEDS);
    "migration.read-mostly-collapses" (read_mostly_collapses):
        "A host write removes the device's copy, and the next read of a kernel makes a new one.",
        sources::GUIDE_MANAGED, &["cudaMemAdvise", "cudaMemPrefetchAsync", "cuLaunchKernel"], needs(NEEDS);
    "migration.preferred-host" (preferred_host):
        "Memory with the host as preferred location and the device as accessed-by is used over the link, without migrations and faults.",
        sources::GUIDE_MANAGED, ADVISED, needs(NEEDS);
    "migration.ping-pong" (ping_pong):
        "Memory that kernels and the host write in turn moves in both directions in every round.",
        sources::GUIDE_MANAGED, KERNEL, needs(NEEDS);
    "migration.part" (part):
        "A kernel that accesses a part moves that part and the pages that the driver adds, but not the whole memory.",
        sources::GUIDE_MANAGED, KERNEL, needs(NEEDS);
    "migration.part-prefetched" (part_prefetched):
        "A prefetch of a part moves only the pages of the part.",
        sources::GUIDE_MANAGED, PREFETCH, needs(NEEDS);
    "migration.memset" (memset):
        "Memset of managed memory that is on the device moves nothing.",
        sources::GUIDE_MANAGED, &["cudaMemsetAsync"], needs(NEEDS);
};

fn size(bytes: usize) -> String {
    match bytes {
        MIB.. => format!("{} MiB", bytes / MIB),
        _ => format!("{} KiB", bytes / KIB),
    }
}

const SIZES: [usize; 5] = [4 * KIB, 64 * KIB, MIB, 3 * MIB, 16 * MIB];
const FAULTED: [usize; 4] = [64 * KIB, MIB, 3 * MIB, 16 * MIB];

fn prefetch_to_device(c: &Cuda<'_>) -> Verdict {
    for bytes in SIZES {
        let (memory, stream) = (c.managed(bytes)?, c.stream()?);
        memory.fill_all(1);
        counted(c, &size(bytes), exactly(bytes, 0), || {
            c.ok("prefetch", c.prefetch(&memory, DEVICE, &stream))
        })?;
        counted(
            c,
            &format!("{}, a kernel", size(bytes)),
            exactly(0, 0),
            || c.add(&memory, 1, &stream),
        )?;
    }
    Ok(())
}

fn prefetch_to_host(c: &Cuda<'_>) -> Verdict {
    for bytes in SIZES {
        let (memory, stream) = (c.managed(bytes)?, c.stream()?);
        c.ok("prefetch", c.prefetch(&memory, DEVICE, &stream))?;
        c.add(&memory, 1, &stream)?;
        counted(c, &size(bytes), exactly(0, bytes), || {
            c.ok("prefetch", c.prefetch(&memory, HOST, &stream))
        })?;
        counted(
            c,
            &format!("{}, the host", size(bytes)),
            exactly(0, 0),
            || memory.value_all().map(drop),
        )?;
    }
    Ok(())
}

fn prefetch_of_what_is_there(c: &Cuda<'_>) -> Verdict {
    let (memory, stream) = (c.managed(3 * MIB)?, c.stream()?);
    memory.fill_all(1);
    counted(c, "on the host", exactly(0, 0), || {
        c.ok("prefetch", c.prefetch(&memory, HOST, &stream))
    })?;
    c.ok("prefetch", c.prefetch(&memory, DEVICE, &stream))?;
    counted(c, "on the device", exactly(0, 0), || {
        c.ok("prefetch", c.prefetch(&memory, DEVICE, &stream))
    })
}

fn kernel_writes(c: &Cuda<'_>) -> Verdict {
    for bytes in FAULTED {
        let (memory, stream) = (c.managed(bytes)?, c.stream()?);
        memory.fill_all(1);
        counted(c, &size(bytes), exactly(bytes, 0).by_gpu_faults(), || {
            c.add(&memory, 1, &stream)
        })?;
        counted(c, &format!("{}, again", size(bytes)), exactly(0, 0), || {
            c.add(&memory, 1, &stream)
        })?;
    }
    Ok(())
}

fn kernel_reads(c: &Cuda<'_>) -> Verdict {
    for bytes in FAULTED {
        let (memory, out, stream) = (c.managed(bytes)?, c.device_memory(bytes)?, c.stream()?);
        memory.fill_all(1);
        counted(c, &size(bytes), exactly(bytes, 0).by_gpu_faults(), || {
            c.read(&memory, &out, &stream)
        })?;
    }
    Ok(())
}

fn host_touches(c: &Cuda<'_>) -> Verdict {
    for bytes in FAULTED {
        let (memory, stream) = (c.managed(bytes)?, c.stream()?);
        c.ok("prefetch", c.prefetch(&memory, DEVICE, &stream))?;
        c.add(&memory, 1, &stream)?;
        counted(c, &size(bytes), exactly(0, bytes).by_host_faults(), || {
            memory.read_pages();
            Ok(())
        })?;
    }
    Ok(())
}

fn fresh_on_device(c: &Cuda<'_>) -> Verdict {
    let (memory, stream) = (c.managed(3 * MIB)?, c.stream()?);
    counted(c, "a kernel", exactly(0, 0).by_gpu_faults(), || {
        c.add(&memory, 1, &stream)
    })
}

fn fresh_on_host(c: &Cuda<'_>) -> Verdict {
    let memory = c.managed(3 * MIB)?;
    counted(c, "the host", exactly(0, 0).by_host_faults(), || {
        memory.fill_all(1);
        Ok(())
    })
}

fn fresh_prefetched(c: &Cuda<'_>) -> Verdict {
    let (memory, stream) = (c.managed(3 * MIB)?, c.stream()?);
    counted(c, "prefetch", exactly(0, 0), || {
        c.ok("prefetch", c.prefetch(&memory, DEVICE, &stream))
    })?;
    counted(c, "a kernel", exactly(0, 0), || c.add(&memory, 1, &stream))
}

fn read_mostly_duplicates(c: &Cuda<'_>) -> Verdict {
    let bytes = 4 * MIB;
    let (memory, out, stream) = (c.managed(bytes)?, c.device_memory(bytes)?, c.stream()?);
    memory.fill_all(3);
    c.ok(
        "read-mostly",
        c.advise(&memory, advice::SET_READ_MOSTLY, DEVICE),
    )?;
    counted(c, "prefetch", exactly(bytes, 0), || {
        c.ok("prefetch", c.prefetch(&memory, DEVICE, &stream))
    })?;
    counted(c, "both read", exactly(0, 0), || {
        c.read(&memory, &out, &stream)?;
        c.ok("synchronize", stream.synchronize())?;
        c.is("the host reads", memory.value_all()?, 3)
    })?;
    c.is("the kernel read", c.device_value(&out)?, 3)
}

fn read_mostly_collapses(c: &Cuda<'_>) -> Verdict {
    let bytes = 4 * MIB;
    let (memory, out, stream) = (c.managed(bytes)?, c.device_memory(bytes)?, c.stream()?);
    memory.fill_all(3);
    c.ok(
        "read-mostly",
        c.advise(&memory, advice::SET_READ_MOSTLY, DEVICE),
    )?;
    c.ok("prefetch", c.prefetch(&memory, DEVICE, &stream))?;
    counted(c, "the host writes", exactly(0, 0).by_host_faults(), || {
        memory.fill_all(4);
        Ok(())
    })?;
    counted(
        c,
        "a kernel reads",
        exactly(bytes, 0).by_gpu_faults(),
        || c.read(&memory, &out, &stream),
    )?;
    c.is("the kernel read", c.device_value(&out)?, 4)
}

fn preferred_host(c: &Cuda<'_>) -> Verdict {
    let (memory, stream) = (c.managed(4 * MIB)?, c.stream()?);
    c.ok("preferred", c.advise(&memory, advice::SET_PREFERRED, HOST))?;
    c.ok(
        "accessed-by",
        c.advise(&memory, advice::SET_ACCESSED_BY, DEVICE),
    )?;
    memory.fill_all(1);
    counted(c, "a kernel and the host", exactly(0, 0), || {
        c.add(&memory, 1, &stream)?;
        c.ok("synchronize", stream.synchronize())?;
        c.is("contents", memory.value_all()?, 2)
    })
}

fn ping_pong(c: &Cuda<'_>) -> Verdict {
    let bytes = 3 * MIB;
    let (memory, stream) = (c.managed(bytes)?, c.stream()?);
    for round in 0..3 {
        memory.fill_all(round);
        counted(
            c,
            &format!("round {round}, a kernel"),
            exactly(bytes, 0).by_gpu_faults(),
            || c.add(&memory, 1, &stream),
        )?;
        counted(
            c,
            &format!("round {round}, the host"),
            exactly(0, bytes).by_host_faults(),
            || c.is("contents", memory.value_all()?, round + 1),
        )?;
    }
    Ok(())
}

fn part(c: &Cuda<'_>) -> Verdict {
    let (memory, stream) = (c.managed(16 * MIB)?, c.stream()?);
    memory.fill_all(1);
    // At least the accessed part, and less than the whole memory.
    let part = exactly(0, 0)
        .moving_to_device(4 * KIB..=memory.bytes() - 1)
        .by_gpu_faults();
    counted(c, "4 KiB of 16 MiB", part, || {
        c.ok("launch", c.add_range(&memory, 0, KIB, 1, &stream)?)
    })?;
    c.is("the part", memory.value(0..KIB)?, 2)?;
    c.is("the rest", memory.value(KIB..memory.len())?, 1)
}

fn part_prefetched(c: &Cuda<'_>) -> Verdict {
    let (memory, stream) = (c.managed(16 * MIB)?, c.stream()?);
    memory.fill_all(1);
    let start = memory.address() + MIB;
    counted(c, "3 MiB of 16 MiB", exactly(3 * MIB, 0), || {
        c.ok(
            "prefetch",
            c.prefetch_range(start..start + 3 * MIB, DEVICE, &stream),
        )
    })
}

fn memset(c: &Cuda<'_>) -> Verdict {
    let (memory, stream) = (c.managed(3 * MIB)?, c.stream()?);
    c.ok("prefetch", c.prefetch(&memory, DEVICE, &stream))?;
    counted(c, "on the device", exactly(0, 0), || {
        c.ok("memset", c.set_async(&memory, 1, memory.bytes(), &stream))
    })?;
    c.is("contents", memory.value_all()?, 0x0101_0101)
}
