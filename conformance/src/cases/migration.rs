//! What moves, and how often it faults: counted, and compared between machines.
//!
//! Bytes must agree; faults may differ by [`FACTOR`], since a GPU's depend on how its blocks are scheduled.

use super::prelude::*;
use crate::Value;

/// Managed memory faults, and what migrates is counted.
const NEEDS: &[Need] = &[Need::Migration, Need::Counters];
const FACTOR: u64 = 4;
const CALLS: &[&str] = &[
    "cudaMallocManaged",
    "cudaMemPrefetchAsync",
    "cuLaunchKernel",
];

const fn migration(
    name: &'static str,
    rule: &'static str,
    check: fn(&Cuda<'_>) -> Verdict,
) -> Case {
    Case::new(name, rule, sources::GUIDE_MANAGED, CALLS, check).needs(NEEDS)
}

pub(super) const CASES: &[Case] = &[
    migration(
        "migration.prefetch-to-device",
        "A prefetch to the device moves what the host has populated, all of it and once, without a fault.",
        prefetch_to_device,
    ),
    migration(
        "migration.prefetch-to-host",
        "A prefetch to the host moves what is on the device, all of it and once, without a fault.",
        prefetch_to_host,
    ),
    migration(
        "migration.prefetch-of-what-is-there",
        "A prefetch to where memory is moves nothing.",
        prefetch_of_what_is_there,
    ),
    migration(
        "migration.kernel-writes",
        "A kernel that writes what the host has populated faults it over, all of it and once.",
        kernel_writes,
    ),
    migration(
        "migration.kernel-reads",
        "A kernel that reads what the host has populated faults it over, all of it and once.",
        kernel_reads,
    ),
    migration(
        "migration.host-touches",
        "The host's touches fault back what is on the device, all of it and once.",
        host_touches,
    ),
    migration(
        "migration.fresh-on-device",
        "Memory that a kernel touches first is populated on the device: nothing moves.",
        fresh_on_device,
    ),
    migration(
        "migration.fresh-on-host",
        "Memory that the host touches first is populated on the host: nothing moves.",
        fresh_on_host,
    ),
    migration(
        "migration.fresh-prefetched",
        "A prefetch of memory that nothing has touched populates it: nothing moves, and a kernel does not fault.",
        fresh_prefetched,
    ),
    migration(
        "migration.read-mostly-duplicates",
        "A prefetch of read-mostly memory makes a copy; then both sides read without moving anything.",
        read_mostly_duplicates,
    ),
    migration(
        "migration.read-mostly-collapses",
        "A write by the host ends the device's copy, and a kernel that reads again gets a new one.",
        read_mostly_collapses,
    ),
    migration(
        "migration.preferred-host",
        "Memory that prefers the host and is set as accessed by the device is used over the link: nothing moves, nothing faults.",
        preferred_host,
    ),
    migration(
        "migration.ping-pong",
        "Memory that kernels and the host write in turn moves both ways in every round.",
        ping_pong,
    ),
    migration(
        "migration.part",
        "A kernel that touches a part faults over that part and what the driver takes along, not the whole.",
        part,
    ),
    migration(
        "migration.part-prefetched",
        "A prefetch of a part moves its pages and no others.",
        part_prefetched,
    ),
    Case::new(
        "migration.memset",
        "Memset of managed memory that is on the device moves nothing.",
        sources::GUIDE_MANAGED,
        &["cudaMemsetAsync"],
        memset,
    )
    .needs(NEEDS),
];

/// Runs a piece of work to its end and writes down what moved; the bytes that the rule says, if it says them.
pub(super) fn counted(
    c: &Cuda<'_>,
    what: &str,
    expected: (Option<usize>, Option<usize>),
    work: impl FnOnce() -> Verdict,
) -> Verdict {
    let counts = || {
        c.machine
            .counts()
            .map_err(|error| Failure(error.to_string()))
    };
    c.ok("synchronize before", c.synchronize())?;
    let before = counts()?;
    work()?;
    c.ok("synchronize behind", c.synchronize())?;
    let after = counts()?;
    for (way, moved, expected) in [
        (
            "bytes to the device",
            after.to_device - before.to_device,
            expected.0,
        ),
        (
            "bytes to the host",
            after.to_host - before.to_host,
            expected.1,
        ),
    ] {
        c.note(&format!("{what}: {way}"), Value::Number(moved));
        if let Some(bytes) = expected
            && moved != bytes as u64
        {
            return fail(format!("{what}: {moved} {way}, and not {bytes}"));
        }
    }
    for (kind, faults) in [
        ("CPU faults", after.cpu_faults - before.cpu_faults),
        (
            "GPU fault groups",
            after.gpu_fault_groups - before.gpu_fault_groups,
        ),
    ] {
        let value = Value::About {
            about: faults,
            factor: FACTOR,
        };
        c.note(&format!("{what}: {kind}"), value);
    }
    Ok(())
}

/// Moves exactly this.
pub(super) fn exactly(to_device: usize, to_host: usize) -> (Option<usize>, Option<usize>) {
    (Some(to_device), Some(to_host))
}

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
        counted(c, &size(bytes), exactly(bytes, 0), || {
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
        counted(c, &size(bytes), exactly(bytes, 0), || {
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
        counted(c, &size(bytes), exactly(0, bytes), || {
            memory.read_pages();
            Ok(())
        })?;
    }
    Ok(())
}

fn fresh_on_device(c: &Cuda<'_>) -> Verdict {
    let (memory, stream) = (c.managed(3 * MIB)?, c.stream()?);
    counted(c, "a kernel", exactly(0, 0), || c.add(&memory, 1, &stream))
}

fn fresh_on_host(c: &Cuda<'_>) -> Verdict {
    let memory = c.managed(3 * MIB)?;
    counted(c, "the host", exactly(0, 0), || {
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
    counted(c, "the host writes", exactly(0, 0), || {
        memory.fill_all(4);
        Ok(())
    })?;
    counted(c, "a kernel reads", exactly(bytes, 0), || {
        c.read(&memory, &out, &stream)
    })?;
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
            exactly(bytes, 0),
            || c.add(&memory, 1, &stream),
        )?;
        counted(
            c,
            &format!("round {round}, the host"),
            exactly(0, bytes),
            || c.is("contents", memory.value_all()?, round + 1),
        )?;
    }
    Ok(())
}

fn part(c: &Cuda<'_>) -> Verdict {
    let (memory, stream) = (c.managed(16 * MIB)?, c.stream()?);
    memory.fill_all(1);
    counted(c, "4 KiB of 16 MiB", (None, Some(0)), || {
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
