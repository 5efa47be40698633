//! Migrations and faults: counted, and compared between machines.
//!
//! Bytes must agree. Numbers of faults, if they are not zero, may differ by a factor.

use super::*;

cases! {
    /// A prefetch to the device moves all memory that the host has populated, once and without a fault.
    "migration.prefetch-to-device" GUIDE_MANAGED [cudaMallocManaged, cudaMemPrefetchAsync, cuLaunchKernel] (Migration, Counters) |c| {
        for bytes in SIZES {
            let (memory, stream) = (c.managed(bytes).filled(1), c.stream());
            counted(c, size(bytes), exactly(bytes, 0), || stream.prefetch(&memory, DEVICE));
            let what = format!("{}, a kernel", size(bytes));
            counted(c, what, exactly(0, 0), || stream.add(&memory, 1));
        }
    }
    /// A prefetch to the host moves all memory that is on the device, once and without a fault.
    "migration.prefetch-to-host" GUIDE_MANAGED [cudaMallocManaged, cudaMemPrefetchAsync, cuLaunchKernel] (Migration, Counters) |c| {
        for bytes in SIZES {
            let (memory, stream) = (c.managed(bytes), c.stream());
            stream.prefetch(&memory, DEVICE).add(&memory, 1);
            counted(c, size(bytes), exactly(0, bytes), || stream.prefetch(&memory, HOST));
            counted(c, format!("{}, the host", size(bytes)), exactly(0, 0), || memory.value_all());
        }
    }
    /// A prefetch of memory that is already at the destination moves nothing.
    "migration.prefetch-of-what-is-there" GUIDE_MANAGED [cudaMallocManaged, cudaMemPrefetchAsync] (Migration, Counters) |c, stream| {
        let memory = c.managed(3 * MIB).filled(1);
        counted(c, "on the host", exactly(0, 0), || stream.prefetch(&memory, HOST));
        stream.prefetch(&memory, DEVICE);
        counted(c, "on the device", exactly(0, 0), || stream.prefetch(&memory, DEVICE));
    }
    /// A kernel that writes memory that the host has populated moves all of it by faults, once.
    "migration.kernel-writes" GUIDE_MANAGED [cudaMallocManaged, cuLaunchKernel] (Migration, Counters) |c| {
        for bytes in FAULTED {
            let (memory, stream) = (c.managed(bytes).filled(1), c.stream());
            counted(c, size(bytes), exactly(bytes, 0).gpu_faults(), || stream.add(&memory, 1));
            counted(c, format!("{}, again", size(bytes)), exactly(0, 0), || stream.add(&memory, 1));
        }
    }
    /// A kernel that reads memory that the host has populated moves all of it by faults, once.
    "migration.kernel-reads" GUIDE_MANAGED [cudaMallocManaged, cuLaunchKernel] (Migration, Counters) |c| {
        for bytes in FAULTED {
            let (memory, out, stream) = (c.managed(bytes).filled(1), c.device(bytes), c.stream());
            counted(c, size(bytes), exactly(bytes, 0).gpu_faults(), || stream.read(&memory, &out));
        }
    }
    /// Host accesses to memory that is on the device move all of it back by faults, once.
    "migration.host-touches" GUIDE_MANAGED [cudaMallocManaged, cudaMemPrefetchAsync, cuLaunchKernel] (Migration, Counters) |c| {
        for bytes in FAULTED {
            let (memory, stream) = (c.managed(bytes), c.stream());
            stream.prefetch(&memory, DEVICE).add(&memory, 1);
            counted(c, size(bytes), exactly(0, bytes).host_faults(), || memory.read_pages());
        }
    }
    /// If a kernel accesses memory first, the memory is populated on the device, and nothing moves.
    "migration.fresh-on-device" GUIDE_MANAGED [cudaMallocManaged, cuLaunchKernel] (Migration, Counters) |c, stream| {
        counted(c, "a kernel", exactly(0, 0).gpu_faults(), || stream.add(&c.managed(3 * MIB), 1));
    }
    /// If the host accesses memory first, the memory is populated on the host, and nothing moves.
    "migration.fresh-on-host" GUIDE_MANAGED [cudaMallocManaged] (Migration, Counters) |c| {
        counted(c, "the host", exactly(0, 0).host_faults(), || c.managed(3 * MIB).fill_all(1));
    }
    /// A prefetch of untouched memory populates it; nothing moves, and a kernel does not fault.
    "migration.fresh-prefetched" GUIDE_MANAGED [cudaMallocManaged, cudaMemPrefetchAsync, cuLaunchKernel] (Migration, Counters) |c, stream| {
        let memory = c.managed(3 * MIB);
        counted(c, "prefetch", exactly(0, 0), || stream.prefetch(&memory, DEVICE));
        counted(c, "a kernel", exactly(0, 0), || stream.add(&memory, 1));
    }
    /// A prefetch of read-mostly memory makes a copy; then reads on both sides move nothing.
    "migration.read-mostly-duplicates" GUIDE_MANAGED [cudaMemAdvise, cudaMemPrefetchAsync, cuLaunchKernel] (Migration, Counters) |c, stream| {
        let bytes = 4 * MIB;
        let (memory, out) = (c.managed(bytes).filled(3), c.device(bytes));
        ok(c.advise(&memory, SET_READ_MOSTLY, DEVICE));
        counted(c, "prefetch", exactly(bytes, 0), || stream.prefetch(&memory, DEVICE));
        counted(c, "both read", exactly(0, 0), || {
            stream.read(&memory, &out).sync();
            c.is("the host reads", memory.value_all(), 3)
        });
        c.is("the kernel read", c.device_value(&out), 3);
    }
    /// A host write removes the device's copy, and the next read of a kernel makes a new one.
    "migration.read-mostly-collapses" GUIDE_MANAGED [cudaMemAdvise, cudaMemPrefetchAsync, cuLaunchKernel] (Migration, Counters) |c, stream| {
        let bytes = 4 * MIB;
        let (memory, out) = (c.managed(bytes).filled(3), c.device(bytes));
        ok(c.advise(&memory, SET_READ_MOSTLY, DEVICE));
        stream.prefetch(&memory, DEVICE);
        counted(c, "the host writes", exactly(0, 0).host_faults(), || memory.fill_all(4));
        counted(c, "a kernel reads", exactly(bytes, 0).gpu_faults(), || stream.read(&memory, &out));
        c.is("the kernel read", c.device_value(&out), 4);
    }
    /// Memory with the host as preferred location and the device as accessed-by is used over the link, without migrations and faults.
    "migration.preferred-host" GUIDE_MANAGED [cudaMemAdvise, cuLaunchKernel] (Migration, Counters) |c, stream| {
        let memory = c.managed(4 * MIB);
        ok(c.advise(&memory, SET_PREFERRED, HOST));
        ok(c.advise(&memory, SET_ACCESSED_BY, DEVICE));
        memory.fill_all(1);
        counted(c, "a kernel and the host", exactly(0, 0), || {
            stream.add(&memory, 1).sync();
            c.is("contents", memory.value_all(), 2)
        });
    }
    /// Memory that kernels and the host write in turn moves in both directions in every round.
    "migration.ping-pong" GUIDE_MANAGED [cudaMallocManaged, cuLaunchKernel] (Migration, Counters) |c, stream| {
        let bytes = 3 * MIB;
        let memory = c.managed(bytes);
        for round in 0..3 {
            memory.fill_all(round);
            let what = format!("round {round}, a kernel");
            counted(c, what, exactly(bytes, 0).gpu_faults(), || stream.add(&memory, 1));
            let (what, back) = (format!("round {round}, the host"), exactly(0, bytes));
            let read = || c.is("contents", memory.value_all(), round + 1);
            counted(c, what, back.host_faults(), read);
        }
    }
    /// A kernel that accesses a part moves that part and the pages that the driver adds, but not the whole memory.
    "migration.part" GUIDE_MANAGED [cudaMallocManaged, cuLaunchKernel] (Migration, Counters) |c, stream| {
        let memory = c.managed(16 * MIB).filled(1);
        // At least the accessed part, and less than the whole memory.
        let part = exactly(0, 0).moving_to_device(4 * KIB, memory.bytes() - 1).gpu_faults();
        counted(c, "4 KiB of 16 MiB", part, || ok(c.add_range(&memory, 0, KIB, 1, &stream)));
        c.is("the part", memory.value(0..KIB), 2);
        c.is("the rest", memory.value(KIB..memory.len()), 1);
    }
    /// A prefetch of a part moves only the pages of the part.
    "migration.part-prefetched" GUIDE_MANAGED [cudaMallocManaged, cudaMemPrefetchAsync] (Migration, Counters) |c, stream| {
        let memory = c.managed(16 * MIB).filled(1);
        let start = memory.at() + MIB;
        counted(c, "3 MiB of 16 MiB", exactly(3 * MIB, 0), || {
            ok(c.prefetch(start..start + 3 * MIB, DEVICE, &stream))
        });
    }
    /// Memset of managed memory that is on the device moves nothing.
    "migration.memset" GUIDE_MANAGED [cudaMemsetAsync] (Migration, Counters) |c, stream| {
        let memory = c.managed(3 * MIB);
        stream.prefetch(&memory, DEVICE);
        counted(c, "on the device", exactly(0, 0), || stream.set(&memory, 1));
        c.is("contents", memory.value_all(), 0x0101_0101);
    }
}

const SIZES: [usize; 5] = [4 * KIB, 64 * KIB, MIB, 3 * MIB, 16 * MIB];
const FAULTED: [usize; 4] = [64 * KIB, MIB, 3 * MIB, 16 * MIB];

fn size(bytes: usize) -> String {
    match bytes {
        MIB.. => format!("{} MiB", bytes / MIB),
        _ => format!("{} KiB", bytes / KIB),
    }
}
