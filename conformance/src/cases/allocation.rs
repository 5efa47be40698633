//! Allocating and freeing managed and device memory.

use super::*;

/// A request that no machine can serve: it is refused by arithmetic, before anything is reserved.
const HUGE: usize = usize::MAX / 2;

cases! {
    /// Managed memory has one address, and the host can read and write it.
    "allocation.managed" MEMORY [cudaMallocManaged, cudaFree] (Managed) |c| {
        let memory = c.managed(256 * KIB).filled(7);
        c.is("read back", memory.value_all(), 7);
        c.succeeds("cudaFree", memory.free());
    }
    /// Allocating 0 bytes of managed memory is not an error (NVIDIA documents an invalid value).
    "allocation.managed-zero-bytes" MEASURED [cudaMallocManaged] (Managed) |c| {
        let address =
            c.succeeds("cudaMallocManaged(0)", c.malloc_managed(0, sys::cudaMemAttachGlobal));
        c.succeeds("cudaFree of it", c.free(address));
    }
    /// An allocation of managed memory larger than the address space is out of memory, also as the last error.
    "allocation.managed-huge" MEMORY [cudaMallocManaged, cudaGetLastError] (Managed) |c| {
        let code = c.malloc_managed(HUGE, sys::cudaMemAttachGlobal);
        let last = c.last_error();
        c.gives("cudaMallocManaged", code, OUT_OF_MEMORY);
        c.is("the last error", last, code_of(&code));
    }
    /// Managed memory is attached globally or to the host; other flags are an invalid value.
    "allocation.managed-flags" MEMORY [cudaMallocManaged] (Managed) |c| {
        let host = c.managed_with(64 * KIB, sys::cudaMemAttachHost).filled(3);
        c.is("attached to the host", host.value_all(), 3);
        for flags in [0, 3, 4, 64] {
            c.gives(format!("flags {flags}"), c.malloc_managed(64 * KIB, flags), INVALID_VALUE);
        }
    }
    /// Managed memory is aligned to at least 256 bytes, whatever its size.
    "allocation.managed-alignment" GUIDE_ALIGNMENT [cudaMallocManaged] (Managed) |c| {
        for bytes in [1, 100, 4096, 65_537] {
            c.is(format!("{bytes} bytes"), c.managed(bytes).at() % 256, 0);
        }
    }
    /// Live allocations do not overlap.
    "allocation.managed-distinct" MEMORY [cudaMallocManaged, cudaFree] (Managed) |c| {
        let mut all = Vec::new();
        for bytes in [4, 4096, 5000, 65_536, 300_000, 2 * MIB] {
            let memory = c.managed(bytes);
            all.push(memory.at()..memory.at() + bytes);
            // Kept until the end of the case, then all are freed.
            std::mem::forget(memory);
        }
        all.sort_by_key(|range| range.start);
        let apart = all.windows(2).all(|pair| pair[0].end <= pair[1].start);
        for range in all {
            ok(c.free(range.start));
        }
        c.holds("they do not overlap", apart);
    }
    /// Allocating 0 bytes of device memory is not an error, and returns null.
    "allocation.device-zero-bytes" MEASURED [cudaMalloc] |c| {
        c.is("null", c.succeeds("cudaMalloc(0)", c.malloc(0)), 0);
    }
    /// An allocation larger than the device's memory is out of memory.
    "allocation.device-huge" MEMORY [cudaMalloc] |c| {
        c.gives("cudaMalloc", c.malloc(HUGE), OUT_OF_MEMORY);
    }
    /// An allocation larger than the device's total is out of memory, and the free memory does not change.
    "allocation.device-over-capacity" MEMORY [cudaMalloc, cudaMemGetInfo] (NoPageableAccess) |c| {
        let (free, total) = ok(c.memory_info());
        c.gives("cudaMalloc of twice the device", c.malloc(2 * total), OUT_OF_MEMORY);
        c.holds("what is free stays free", ok(c.memory_info()).0 + 8 * MIB >= free);
    }
    /// Device memory is aligned to at least 256 bytes.
    "allocation.device-alignment" GUIDE_ALIGNMENT [cudaMalloc] |c| {
        for bytes in [1, 100, 4096, 65_537] {
            c.is(format!("{bytes} bytes"), c.device(bytes).at() % 256, 0);
        }
    }
    /// Freeing null does nothing.
    "allocation.free-null" MEMORY [cudaFree, cudaFreeHost] |c| {
        c.succeeds("cudaFree", c.free(0));
        c.succeeds("cudaFreeHost", c.free_host(0));
    }
    /// Freeing memory twice is refused.
    "allocation.free-twice" MEMORY [cudaFree] misuse |c| {
        let memory = c.device(4 * MIB);
        let address = memory.at();
        c.succeeds("cudaFree", memory.free());
        c.refuses("cudaFree again", c.free(address));
    }
    /// Freeing an address inside an allocation is refused, and the allocation stays valid.
    "allocation.free-inside" MEMORY [cudaFree] misuse |c| {
        let memory = c.device(4 * MIB);
        c.refuses("cudaFree", c.free(memory.at() + 1024));
        c.succeeds("still there", c.memset(&memory, 1, memory.bytes()));
    }
    /// Freeing an address that CUDA does not know is refused.
    "allocation.free-foreign" MEMORY [cudaFree] misuse |c| {
        let own = vec![0u32; 1024];
        c.refuses("cudaFree of pageable memory", c.free(own.as_ptr() as usize));
        c.refuses("cudaFreeHost of pageable memory", c.free_host(own.as_ptr() as usize));
    }
    /// Freeing device memory waits for the work that uses it.
    "allocation.free-waits" MEMORY [cudaMalloc, cudaFree] alone |c| {
        // Small allocations are part of a larger piece that stays mapped; large ones are unmapped.
        for bytes in [256 * KIB, 4 * MIB] {
            let memory = c.device(bytes);
            ok(c.memset(&memory, 1, bytes));
            freed_in_use(c, memory, 0x0101_0101);
        }
    }
    /// Freeing managed memory waits for the work that uses it.
    "allocation.managed-free-waits" MEMORY [cudaMallocManaged, cudaFree] (Managed) alone |c| {
        for bytes in [256 * KIB, 4 * MIB] {
            let memory = c.managed(bytes).filled(7);
            freed_in_use(c, memory, 7);
        }
    }
}

/// Frees memory while a kernel that copies it is held. When the call returns, the kernel has copied all of it. If the rule were
/// wrong, the kernel would break the context.
fn freed_in_use(c: &Cuda<'_>, memory: Memory<'_>, holds: u32) {
    let bytes = memory.bytes();
    let (seen, stream) = (c.pinned(bytes, 0), c.stream());
    seen.fill_all(0);
    ok(c.synchronize());
    let gate = c.gate(&stream);
    stream.read(&memory, &seen);
    let (waited, code) = gate.across(|| memory.free());
    let copied = seen.value_all();
    c.succeeds(format!("cudaFree of {bytes} bytes in use"), code);
    c.holds(format!("{bytes} bytes: it waited"), waited);
    c.is(format!("{bytes} bytes: what the work has read"), copied, holds);
}
