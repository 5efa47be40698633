//! Memory that is not allocated with CUDA, on devices that access pageable memory.

use super::*;

cases! {
    /// The device accesses any memory owned by the host process: mapped, on the heap, and on the stack.
    "system_memory.kernel" GUIDE_SYSTEM [cuLaunchKernel] (Pageable) |c, stream| {
        let mapped = c.system(64 * KIB).filled(4);
        stream.add(&mapped, 1).sync();
        c.is("mapped", mapped.value_all(), 5);
        let (mut heap, mut stack) = (vec![6u32; 1000], [7u32; 100]);
        add_at(c, &mut heap, &stream);
        add_at(c, &mut stack, &stream);
        c.is("on the heap", heap == [7; 1000], true);
        c.is("on the stack", stack == [8; 100], true);
    }
    /// A prefetch may refer to system-allocated memory, to the device and to the host, and keeps the contents.
    "system_memory.prefetch" MEMORY [cudaMemPrefetchAsync] (Pageable) |c, stream| {
        let memory = c.system(3 * MIB).filled(5);
        for (what, place) in [("to the device", DEVICE), ("to the host", HOST)] {
            c.succeeds(what, c.prefetch(&memory, place, &stream));
            stream.add(&memory, 1).sync();
        }
        c.is("contents", memory.value_all(), 7);
    }
    /// Advice of every kind may refer to system-allocated memory, and can be unset.
    "system_memory.advice" MEMORY [cudaMemAdvise] (Pageable) |c, stream| {
        let memory = c.system(3 * MIB).filled(5);
        for (what, place, kinds) in [
            ("read-mostly", HOST, [SET_READ_MOSTLY, UNSET_READ_MOSTLY]),
            ("preferred", DEVICE, [SET_PREFERRED, UNSET_PREFERRED]),
            ("preferred on the host", HOST, [SET_PREFERRED, UNSET_PREFERRED]),
            ("accessed-by", DEVICE, [SET_ACCESSED_BY, UNSET_ACCESSED_BY]),
        ] {
            for (change, kind) in ["set", "unset"].into_iter().zip(kinds) {
                c.succeeds(format!("{what}, {change}"), c.advise(&memory, kind, place));
                stream.add(&memory, 1);
            }
        }
        stream.after("contents", &memory, 13);
    }
    /// Advice and prefetch of a range that is not a valid, host-accessible region return an error.
    "system_memory.unmapped" MEMORY [cudaMemAdvise, cudaMemPrefetchAsync] (Pageable) |c, stream| {
        let null = 0..64 * KIB;
        c.refuses("advice", c.advise(null.clone(), SET_READ_MOSTLY, DEVICE));
        c.refuses("prefetch", c.prefetch(null, DEVICE, &stream));
    }
    /// Range attributes are only of managed memory.
    "system_memory.range-attributes" MEMORY [cudaMemRangeGetAttribute, cudaMemRangeGetAttributes] (Pageable) |c| {
        let memory = c.system(64 * KIB).filled(1);
        c.refuses("one", c.range_attribute(memory.span(), ReadMostly, &mut [0]));
        c.refuses("several", c.range_attributes(&memory, &[ReadMostly, Preferred]));
    }
    /// Batches of prefetches and discards may refer to system-allocated memory beside managed memory.
    "system_memory.batch" MEMORY [cudaMemPrefetchBatchAsync, cudaMemDiscardBatchAsync] (Pageable, Since(13, 0)) |c, stream| {
        let (memory, managed) = (c.system(3 * MIB), c.managed(3 * MIB));
        let all = [memory.span(), managed.span()];
        for own in [&memory, &managed] {
            own.fill_all(5);
        }
        c.succeeds("prefetch", c.prefetch_batch(&all, &[(DEVICE, 0)], false, 0, &stream));
        for own in [&memory, &managed] {
            stream.add(own, 1);
        }
        stream.after("the system's", &memory, 6);
        c.is("the managed", managed.value_all(), 6);
        c.succeeds("discard", c.discard_batch(&all, 0, &stream));
        stream.sync();
        memory.fill_all(8);
        stream.add(&memory, 1).sync();
        c.is("written after the discard", memory.value_all(), 9);
    }
    /// System-allocated memory is unregistered, and the device accesses it by the host's pointer.
    "system_memory.pointer" UNIFIED [cudaPointerGetAttributes] (Pageable) |c| {
        let memory = c.system(64 * KIB).filled(1);
        let found = ok(c.pointer(memory.at()));
        c.is("kind", found.type_.0, 0);
        c.holds("the host's pointer", found.hostPointer.at() == memory.at());
        c.holds("the device's pointer", found.devicePointer.at() == memory.at());
    }
    /// Memset and copies accept any unified memory pointer.
    "system_memory.memset" GUIDE_SYSTEM [cudaMemsetAsync, cudaMemcpy] (Pageable) |c, stream| {
        let (memory, managed) = (c.system(3 * MIB), c.managed(3 * MIB));
        memory.fill_all(5);
        c.succeeds("memset", c.memset_async(&memory, 1, memory.bytes(), &stream));
        stream.after("contents", &memory, 0x0101_0101);
        for (what, kind) in [("default", DEFAULT), ("device to device", DEVICE_TO_DEVICE)] {
            memory.fill_all(kind);
            c.succeeds(what, c.copy(&managed, &memory, kind));
            ok(c.synchronize());
            c.is("the copy", managed.value_all(), kind);
        }
    }
    /// The location of system-allocated memory can be queried.
    "system_memory.location" MEMORY [cudaMemGetLocationInfo] (PageableMigration, Since(13, 4)) |c, stream| {
        let memory = c.system(2 * MIB).filled(1);
        for (what, place) in [("on the device", DEVICE), ("on the host", HOST)] {
            stream.prefetch(&memory, place).sync();
            c.is(what, ok(c.location(memory.span())).kind, place.kind);
        }
    }
    /// On software-coherent systems page faults move system-allocated memory to the processor that accesses it, in both directions.
    "system_memory.faults" GUIDE_COHERENCE [cuLaunchKernel] (PageableMigration, Counters) |c, stream| {
        let bytes = 3 * MIB;
        let memory = c.system(bytes).filled(0);
        for round in 0..2 {
            let here = |what: &str| format!("round {round}, {what}");
            counted(c, here("a kernel"), exactly(bytes, 0).gpu_faults(), || stream.add(&memory, 1));
            counted(c, here("again"), exactly(0, 0), || stream.add(&memory, 1));
            counted(c, here("the host"), exactly(0, bytes).host_faults(), || {
                c.is("contents", memory.value_all(), 2 * (round + 1))
            });
        }
    }
    /// On software-coherent systems a prefetch moves system-allocated memory once, and its user then does not fault.
    "system_memory.prefetched" MEMORY [cudaMemPrefetchAsync, cuLaunchKernel] (PageableMigration, Counters) |c, stream| {
        let bytes = 3 * MIB;
        let memory = c.system(bytes).filled(1);
        counted(c, "to the device", exactly(bytes, 0), || stream.prefetch(&memory, DEVICE));
        counted(c, "a kernel", exactly(0, 0), || stream.add(&memory, 1));
        counted(c, "to the host", exactly(0, bytes), || stream.prefetch(&memory, HOST));
        counted(c, "the host", exactly(0, 0), || c.is("contents", memory.value_all(), 2));
    }
    /// The placement policy of malloc, new and mmap is first touch: what a kernel touches first does not move.
    "system_memory.first-touch" GUIDE_SYSTEM [cuLaunchKernel] (PageableMigration, Counters) |c, stream| {
        let bytes = 3 * MIB;
        let memory = c.system(bytes);
        counted(c, "a kernel", exactly(0, 0).gpu_faults(), || stream.add(&memory, 1));
        counted(c, "a kernel again", exactly(0, 0), || stream.add(&memory, 1));
        let back = exactly(0, bytes).host_faults();
        counted(c, "the host", back, || c.is("contents", memory.value_all(), 2));
    }
    /// Read-mostly system-allocated memory is duplicated on a device that does not use the host's page tables.
    "system_memory.read-mostly" MEMORY [cudaMemAdvise, cuLaunchKernel] (PageableMigration, Counters) |c, stream| {
        let bytes = 2 * MIB;
        let (memory, out) = (c.system(bytes).filled(3), c.device(bytes));
        ok(c.advise(&memory, SET_READ_MOSTLY, DEVICE));
        counted(c, "a kernel reads", exactly(bytes, 0).gpu_faults(), || stream.read(&memory, &out));
        counted(c, "both read", exactly(0, 0), || {
            stream.read(&memory, &out);
            c.is("the host reads", memory.value_all(), 3)
        });
    }
    /// Hardware-coherent systems need no page faults for emulating coherency or migrating memory, also with read-mostly and accessed-by.
    "system_memory.in-place" GUIDE_COHERENCE [cudaMemAdvise, cuLaunchKernel] (HostPageTables, Counters) |c, stream| {
        let memory = c.system(3 * MIB).filled(0);
        for (round, kind) in
            [None, Some(SET_READ_MOSTLY), Some(SET_ACCESSED_BY)].into_iter().enumerate()
        {
            if let Some(kind) = kind {
                ok(c.advise(&memory, kind, DEVICE));
            }
            counted(c, format!("round {round}"), exactly(0, 0), || {
                stream.add(&memory, 1).sync();
                c.is("contents", memory.value_all(), round as u32 + 1)
            });
        }
    }
}

/// Adds 1 to every word of an address range by a kernel.
fn add_at(c: &Cuda<'_>, words: &mut [u32], stream: &Stream<'_>) {
    let (address, count) = (words.as_mut_ptr() as usize, words.len());
    ok(c.add_at(address, count as u32, 1, Shape::linear(count), stream));
    stream.sync();
}
