//! Allocating and freeing managed and device memory.

use super::prelude::*;
use cuda_um_sys as sys;

/// A request that no machine can serve: it is refused by arithmetic, before anything is reserved.
const HUGE: usize = usize::MAX / 2;

pub(super) const CASES: &[Case] = cases! {
    "allocation.managed" (managed):
        "Managed memory has one address, and the host can read and write it.",
        sources::MEMORY, &["cudaMallocManaged", "cudaFree"], needs(&[Need::Managed]);
    "allocation.managed-zero-bytes" (managed_zero_bytes):
        "Allocating 0 bytes of managed memory is not an error (NVIDIA documents an invalid value).",
        sources::MEASURED, &["cudaMallocManaged"], needs(&[Need::Managed]);
    "allocation.managed-huge" (managed_huge):
        "An allocation of managed memory larger than the address space is out of memory, also as the last error.",
        sources::MEMORY, &["cudaMallocManaged", "cudaGetLastError"], needs(&[Need::Managed]);
    "allocation.managed-flags" (managed_flags):
        "Managed memory is attached globally or to the host; other flags are an invalid value.",
        sources::MEMORY, &["cudaMallocManaged"], needs(&[Need::Managed]);
    "allocation.managed-alignment" (managed_alignment):
        "Managed memory is aligned to at least 256 bytes, whatever its size.",
        sources::GUIDE_ALIGNMENT, &["cudaMallocManaged"], needs(&[Need::Managed]);
    "allocation.managed-distinct" (managed_distinct):
        "Live allocations do not overlap.",
        sources::MEMORY, &["cudaMallocManaged", "cudaFree"], needs(&[Need::Managed]);
    "allocation.device-zero-bytes" (device_zero_bytes):
        "Allocating 0 bytes of device memory is not an error, and returns null.",
        sources::MEASURED, &["cudaMalloc"];
    "allocation.device-huge" (device_huge):
        "An allocation larger than the device's memory is out of memory.",
        sources::MEMORY, &["cudaMalloc"];
    "allocation.device-over-capacity" (device_over_capacity):
        "An allocation larger than the device's total is out of memory, and the free memory does not change.",
        sources::MEMORY, &["cudaMalloc", "cudaMemGetInfo"], needs(&[Need::NoPageableAccess]);
    "allocation.device-alignment" (device_alignment):
        "Device memory is aligned to at least 256 bytes.",
        sources::GUIDE_ALIGNMENT, &["cudaMalloc"];
    "allocation.free-null" (free_null):
        "Freeing null does nothing.",
        sources::MEMORY, &["cudaFree", "cudaFreeHost"];
    "allocation.free-twice" (free_twice):
        "Freeing memory twice is refused.",
        sources::MEMORY, &["cudaFree"], misuse();
    "allocation.free-inside" (free_inside):
        "Freeing an address inside an allocation is refused, and the allocation stays valid.",
        sources::MEMORY, &["cudaFree"], misuse();
    "allocation.free-foreign" (free_foreign):
        "Freeing an address that CUDA does not know is refused.",
        sources::MEMORY, &["cudaFree"], misuse();
    "allocation.free-waits" (free_waits):
        "Freeing device memory waits for the work that uses it.",
        sources::MEMORY, &["cudaMalloc", "cudaFree"], alone();
    "allocation.managed-free-waits" (managed_free_waits):
        "Freeing managed memory waits for the work that uses it.",
        sources::MEMORY, &["cudaMallocManaged", "cudaFree"], needs(&[Need::Managed]), alone();
};

fn managed(c: &Cuda<'_>) -> Verdict {
    let memory = c.managed(256 * KIB)?;
    memory.fill_all(7);
    c.is("read back", memory.value_all()?, 7)?;
    c.succeeds("cudaFree", memory.free())
}

fn managed_zero_bytes(c: &Cuda<'_>) -> Verdict {
    let (code, address) = c.try_managed(0, sys::cudaMemAttachGlobal);
    c.succeeds("cudaMallocManaged(0)", code)?;
    c.succeeds("cudaFree of it", c.free_address(address))
}

fn managed_huge(c: &Cuda<'_>) -> Verdict {
    let (code, _) = c.try_managed(HUGE, sys::cudaMemAttachGlobal);
    let last = c.last_error();
    c.gives("cudaMallocManaged", code, Code::OUT_OF_MEMORY)?;
    c.is("the last error", last, code)
}

fn managed_flags(c: &Cuda<'_>) -> Verdict {
    let host = c.managed_with(64 * KIB, sys::cudaMemAttachHost)?;
    host.fill_all(3);
    c.is("attached to the host", host.value_all()?, 3)?;
    for flags in [0, 3, 4, 64] {
        let (code, _) = c.try_managed(64 * KIB, flags);
        c.gives(&format!("flags {flags}"), code, Code::INVALID_VALUE)?;
    }
    Ok(())
}

fn managed_alignment(c: &Cuda<'_>) -> Verdict {
    for bytes in [1, 100, 4096, 65_537] {
        let memory = c.managed(bytes)?;
        c.is(&format!("{bytes} bytes"), memory.address() % 256, 0)?;
    }
    Ok(())
}

fn managed_distinct(c: &Cuda<'_>) -> Verdict {
    let mut all = Vec::new();
    for bytes in [4, 4096, 5000, 65_536, 300_000, 2 * MIB] {
        let memory = c.managed(bytes)?;
        all.push(memory.address()..memory.address() + bytes);
        // Kept until the end of the case, then all are freed.
        std::mem::forget(memory);
    }
    all.sort_by_key(|range| range.start);
    let apart = all.windows(2).all(|pair| pair[0].end <= pair[1].start);
    for range in all {
        c.ok("cudaFree", c.free_address(range.start))?;
    }
    c.holds("they do not overlap", apart)
}

fn device_zero_bytes(c: &Cuda<'_>) -> Verdict {
    let (code, address) = c.try_device(0);
    c.succeeds("cudaMalloc(0)", code)?;
    c.is("null", address, 0)
}

fn device_huge(c: &Cuda<'_>) -> Verdict {
    let (code, _) = c.try_device(HUGE);
    c.gives("cudaMalloc", code, Code::OUT_OF_MEMORY)
}

fn device_over_capacity(c: &Cuda<'_>) -> Verdict {
    let (free, total) = c.memory_info()?;
    let (code, _) = c.try_device(2 * total);
    c.gives("cudaMalloc of twice the device", code, Code::OUT_OF_MEMORY)?;
    c.holds(
        "what is free stays free",
        c.memory_info()?.0 + 8 * MIB >= free,
    )
}

fn device_alignment(c: &Cuda<'_>) -> Verdict {
    for bytes in [1, 100, 4096, 65_537] {
        let memory = c.device_memory(bytes)?;
        c.is(&format!("{bytes} bytes"), memory.address() % 256, 0)?;
    }
    Ok(())
}

fn free_null(c: &Cuda<'_>) -> Verdict {
    c.succeeds("cudaFree", c.free_address(0))?;
    c.succeeds("cudaFreeHost", c.free_host_address(0))
}

fn free_twice(c: &Cuda<'_>) -> Verdict {
    let memory = c.device_memory(4 * MIB)?;
    let address = memory.address();
    c.succeeds("cudaFree", memory.free())?;
    c.refuses("cudaFree again", c.free_address(address))
}

fn free_inside(c: &Cuda<'_>) -> Verdict {
    let memory = c.device_memory(4 * MIB)?;
    c.refuses("cudaFree", c.free_address(memory.address() + 1024))?;
    c.succeeds("still there", c.set(&memory, 1, memory.bytes()))
}

fn free_foreign(c: &Cuda<'_>) -> Verdict {
    let own = vec![0u32; 1024];
    c.refuses(
        "cudaFree of pageable memory",
        c.free_address(own.as_ptr() as usize),
    )?;
    c.refuses(
        "cudaFreeHost of pageable memory",
        c.free_host_address(own.as_ptr() as usize),
    )
}

fn free_waits(c: &Cuda<'_>) -> Verdict {
    // Small allocations are part of a larger piece that stays mapped; large ones are unmapped.
    for bytes in [256 * KIB, 4 * MIB] {
        let memory = c.device_memory(bytes)?;
        c.ok("cudaMemset", c.set(&memory, 1, bytes))?;
        freed_in_use(c, memory, 0x0101_0101)?;
    }
    Ok(())
}

fn managed_free_waits(c: &Cuda<'_>) -> Verdict {
    for bytes in [256 * KIB, 4 * MIB] {
        let memory = c.managed(bytes)?;
        memory.fill_all(7);
        freed_in_use(c, memory, 7)?;
    }
    Ok(())
}

/// Frees memory while a kernel that copies it is held. When the call returns, the kernel has copied all of it. If the rule were
/// wrong, the kernel would break the context.
fn freed_in_use(c: &Cuda<'_>, memory: Memory<'_>, holds: u32) -> Verdict {
    let bytes = memory.bytes();
    let (seen, stream) = (c.pinned(bytes, 0)?, c.stream()?);
    seen.fill_all(0);
    c.ok("cudaDeviceSynchronize", c.synchronize())?;
    let gate = c.gate(&stream)?;
    c.read(&memory, &seen, &stream)?;
    let (waited, code) = gate.across(|| memory.free());
    let copied = seen.value_all();
    c.succeeds(&format!("cudaFree of {bytes} bytes in use"), code)?;
    c.holds(&format!("{bytes} bytes: it waited"), waited)?;
    c.is(
        &format!("{bytes} bytes: what the work has read"),
        copied?,
        holds,
    )
}
