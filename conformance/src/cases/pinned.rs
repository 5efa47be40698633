//! Pinned host memory.

use super::prelude::*;
use cuda_um_sys as sys;

pub(super) const CASES: &[Case] = cases! {
    "pinned.mapped" (mapped):
        "A kernel reads and writes mapped pinned memory in place, at the device address that CUDA returns.",
        sources::MEMORY, &["cudaHostAlloc", "cudaHostGetDevicePointer", "cudaFreeHost"], needs(&[Need::MappedHost]);
    "pinned.zero-bytes" (zero_bytes):
        "Allocating 0 bytes of pinned memory is not an error.",
        sources::MEASURED, &["cudaHostAlloc"];
    "pinned.huge" (huge):
        "An allocation of pinned memory larger than the address space is refused.",
        sources::MEMORY, &["cudaHostAlloc"];
    "pinned.flags" (flags):
        "Portable, mapped and write-combined may be combined; other flags are an invalid value.",
        sources::MEMORY, &["cudaHostAlloc"];
    "pinned.alignment" (alignment):
        "Pinned memory is aligned to 512 bytes for every size, also with other small allocations.",
        sources::MEASURED, &["cudaHostAlloc"];
    "pinned.device-pointer-refused" (device_pointer_refused):
        "Memory that is not pinned has no device address, and flags must be 0.",
        sources::MEMORY, &["cudaHostGetDevicePointer"];
    "pinned.freed-by-its-own" (freed_by_its_own):
        "Freeing pinned memory as device memory, or device memory as pinned memory, is refused.",
        sources::MEMORY, &["cudaFreeHost", "cudaFree"];
    "pinned.free-twice" (free_twice):
        "Freeing pinned memory twice is refused.",
        sources::MEMORY, &["cudaFreeHost"], misuse();
    "pinned.not-advised" (not_advised):
        "Advice and prefetch are for managed memory: pinned memory is refused.",
        sources::MEMORY, &["cudaMemPrefetchAsync", "cudaMemAdvise"], needs(&[Need::Concurrent, Need::NoPageableAccess]);
};

fn mapped(c: &Cuda<'_>) -> Verdict {
    let memory = c.pinned(
        64 * KIB,
        sys::cudaHostAllocMapped | sys::cudaHostAllocPortable,
    )?;
    let (code, address) = c.host_device_pointer(memory.address(), 0);
    c.succeeds("cudaHostGetDevicePointer", code)?;
    c.is("the same address", address == memory.address(), true)?;
    memory.fill_all(5);
    let stream = c.stream()?;
    c.add(&memory, 2, &stream)?;
    c.succeeds("cudaStreamSynchronize", stream.synchronize())?;
    c.is("contents", memory.value_all()?, 7)
}

fn zero_bytes(c: &Cuda<'_>) -> Verdict {
    let (code, address) = c.try_pinned(0, 0);
    c.succeeds("cudaHostAlloc(0)", code)?;
    c.succeeds("cudaFreeHost of it", c.free_host_address(address))
}

fn huge(c: &Cuda<'_>) -> Verdict {
    let (code, _) = c.try_pinned(usize::MAX / 2, 0);
    c.refuses("cudaHostAlloc", code)
}

fn flags(c: &Cuda<'_>) -> Verdict {
    for flags in 0..=7 {
        let memory = c.pinned(4 * KIB, flags)?;
        c.ok("cudaFreeHost", memory.free())?;
    }
    for flags in [64, 1 << 20] {
        let (code, _) = c.try_pinned(4 * KIB, flags);
        c.gives(&format!("flags {flags}"), code, Code::INVALID_VALUE)?;
    }
    Ok(())
}

fn alignment(c: &Cuda<'_>) -> Verdict {
    // All allocated at the same time: a driver may put small ones into one page.
    let sizes = [64, 64, 1000, 5000, 100_000];
    let all = sizes.map(|bytes| c.pinned(bytes, 0).map(|memory| (bytes, memory)));
    for (index, memory) in all.into_iter().enumerate() {
        let (bytes, memory) = memory?;
        let what = format!("allocation {index}, {bytes} bytes");
        c.is(&what, memory.address() % 512, 0)?;
    }
    Ok(())
}

fn device_pointer_refused(c: &Cuda<'_>) -> Verdict {
    let own = vec![0u32; 1024];
    let (code, _) = c.host_device_pointer(own.as_ptr() as usize, 0);
    c.gives("pageable memory", code, Code::INVALID_VALUE)?;
    let memory = c.pinned(4 * KIB, sys::cudaHostAllocMapped)?;
    let (code, _) = c.host_device_pointer(memory.address(), 1);
    c.gives("flags 1", code, Code::INVALID_VALUE)
}

fn freed_by_its_own(c: &Cuda<'_>) -> Verdict {
    let (pinned, device) = (c.pinned(4 * MIB, 0)?, c.device_memory(4 * MIB)?);
    c.refuses(
        "cudaFree of pinned memory",
        c.free_address(pinned.address()),
    )?;
    c.refuses(
        "cudaFreeHost of device memory",
        c.free_host_address(device.address()),
    )?;
    pinned.fill_all(1);
    c.succeeds("both are there", c.copy(&device, &pinned, kind::DEFAULT))
}

fn free_twice(c: &Cuda<'_>) -> Verdict {
    let memory = c.pinned(4 * MIB, 0)?;
    let address = memory.address();
    c.succeeds("cudaFreeHost", memory.free())?;
    c.refuses("cudaFreeHost again", c.free_host_address(address))
}

fn not_advised(c: &Cuda<'_>) -> Verdict {
    let (memory, stream) = (c.pinned(64 * KIB, 0)?, c.stream()?);
    c.refuses("cudaMemPrefetchAsync", c.prefetch(&memory, DEVICE, &stream))?;
    c.refuses(
        "cudaMemAdvise",
        c.advise(&memory, advice::SET_READ_MOSTLY, DEVICE),
    )
}
