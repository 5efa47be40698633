//! Pools of managed memory, from CUDA 13.0 on.

use super::prelude::*;
use crate::call::Pool;
use cuda_um_sys::{self as sys, cudaMemPoolAttr as Attr};

const BYTES: usize = 2 * MIB;
const UNTIMED: u32 = sys::cudaEventDisableTiming;
/// `cudaMemoryTypeManaged`
const MANAGED: u32 = 3;

pub(super) const CASES: &[Case] = cases! {
    "pools-managed.host-and-kernel" (host_and_kernel):
        "Memory of a managed pool has one address for host and kernels, like other managed memory.",
        sources::GUIDE_POOLS, &["cudaMemPoolCreate", "cudaMallocFromPoolAsync", "cudaFreeAsync"],
            needs(&[Need::Since(13, 0), Need::Concurrent, Need::Pools]);
    "pools-managed.pointer" (pointer):
        "Memory of a managed pool is reported as managed.",
        sources::UNIFIED, &["cudaMallocFromPoolAsync", "cudaPointerGetAttributes"], needs(&[Need::Since(13, 0),
            Need::Concurrent, Need::Pools]);
    "pools-managed.prefetch" (prefetch):
        "Memory of a managed pool is prefetched like other managed memory.",
        sources::MEMORY, &["cudaMallocFromPoolAsync", "cudaMemPrefetchAsync"], needs(&[Need::Since(13, 0),
            Need::Concurrent, Need::Pools]);
    "pools-managed.advice" (advice):
        "Memory of a managed pool takes no advice: it must be memory of cudaMallocManaged.",
        sources::UNIFIED, &["cudaMemAdvise", "cudaMallocFromPoolAsync"], needs(&[Need::Since(13, 0),
            Need::Concurrent, Need::Pools]);
    "pools-managed.counted" (counted):
        "The used bytes of a managed pool are counted as in other pools.",
        sources::TYPES, &["cudaMemPoolGetAttribute", "cudaMemPoolTrimTo"], needs(&[Need::Since(13, 0),
            Need::Concurrent, Need::Pools]);
    "pools-managed.freed-by-another-stream" (freed_by_another_stream):
        "Another stream frees the memory of a managed pool in its own order, after it has waited for the last use.",
        sources::GUIDE_POOLS, &["cudaStreamWaitEvent", "cudaFreeAsync", "cudaMemPoolGetAttribute"],
            needs(&[Need::Since(13, 0), Need::Concurrent, Need::Pools]);
    "pools-managed.freed-on-default-streams" (freed_on_default_streams):
        "Memory of a managed pool is freed on the legacy and on the per-thread default stream.",
        sources::GUIDE_POOLS, &["cudaFreeAsync", "cudaMemPoolGetAttribute"], needs(&[Need::Since(13, 0),
            Need::Concurrent, Need::Pools]);
    "pools-managed.reused-in-order" (reused_in_order):
        "Memory of a managed pool that is freed while earlier work still uses it is not reused before this work is done.",
        sources::GUIDE_POOLS, &["cudaFreeAsync", "cudaMallocFromPoolAsync"], needs(&[Need::Since(13, 0),
            Need::Concurrent, Need::Pools]);
    "pools-managed.older-refuse" (refused):
        "Before CUDA 13.0 a pool of managed memory is refused.",
        sources::TYPES, &["cudaMemPoolCreate"], needs(&[Need::Before(13, 0), Need::Pools]);
    "pools-managed.needs-concurrent-access" (refused):
        "A device without concurrent managed access refuses a pool of managed memory.",
        sources::POOLS, &["cudaMemPoolCreate"], needs(&[Need::Since(13, 0), Need::NoConcurrent]);
};

fn pool<'c>(c: &'c Cuda<'c>) -> Result<Pool<'c>, Failure> {
    let pool = c
        .try_managed_pool(0)
        .map_err(|code| Failure(format!("cudaMemPoolCreate: {}", c.text(code))))?;
    // Otherwise every synchronization releases the pages, which takes long.
    c.ok(
        "the threshold",
        pool.set(Attr::cudaMemPoolAttrReleaseThreshold, u64::MAX),
    )?;
    Ok(pool)
}

fn host_and_kernel(c: &Cuda<'_>) -> Verdict {
    let (pool, stream) = (pool(c)?, c.stream()?);
    for round in 0..3 {
        let memory = c.malloc_from_pool(&pool, BYTES, &stream, true)?;
        c.ok("cudaStreamSynchronize", stream.synchronize())?;
        memory.fill_all(round);
        c.add(&memory, 5, &stream)?;
        c.ok("cudaStreamSynchronize", stream.synchronize())?;
        c.is("what the host reads", memory.value_all()?, round + 5)?;
        c.succeeds("cudaFreeAsync", memory.free())?;
    }
    c.succeeds("cudaStreamSynchronize", stream.synchronize())
}

fn pointer(c: &Cuda<'_>) -> Verdict {
    let (pool, stream) = (pool(c)?, c.stream()?);
    let memory = c.malloc_from_pool(&pool, BYTES, &stream, true)?;
    c.ok("cudaStreamSynchronize", stream.synchronize())?;
    let pointer = c.pointer(memory.address())?;
    c.is("the kind", pointer.kind, MANAGED)?;
    c.holds(
        "one address",
        pointer.device_pointer == memory.address() && pointer.host_pointer == memory.address(),
    )
}

fn prefetch(c: &Cuda<'_>) -> Verdict {
    let (pool, stream) = (pool(c)?, c.stream()?);
    let memory = c.malloc_from_pool(&pool, BYTES, &stream, true)?;
    c.ok("cudaStreamSynchronize", stream.synchronize())?;
    memory.fill_all(1);
    c.succeeds("to the device", c.prefetch(&memory, DEVICE, &stream))?;
    c.add(&memory, 1, &stream)?;
    c.succeeds("to the host", c.prefetch(&memory, HOST, &stream))?;
    c.succeeds("cudaStreamSynchronize", stream.synchronize())?;
    c.is(
        "last prefetched to",
        c.attribute_of(&memory, Attribute::LastPrefetch)?,
        -1,
    )?;
    c.is("contents", memory.value_all()?, 2)
}

fn advice(c: &Cuda<'_>) -> Verdict {
    let (pool, stream) = (pool(c)?, c.stream()?);
    let memory = c.malloc_from_pool(&pool, BYTES, &stream, true)?;
    c.ok("cudaStreamSynchronize", stream.synchronize())?;
    for number in 1..=6 {
        for (name, place) in [("the device", DEVICE), ("the host", HOST)] {
            let code = c.advise(&memory, number, place);
            c.refuses(&format!("advice {number} with {name}"), code)?;
        }
    }
    Ok(())
}

fn counted(c: &Cuda<'_>) -> Verdict {
    let (pool, stream) = (pool(c)?, c.stream()?);
    let memory = c.malloc_from_pool(&pool, BYTES, &stream, true)?;
    c.holds(
        "used",
        pool.get(Attr::cudaMemPoolAttrUsedMemCurrent)? >= BYTES as u64,
    )?;
    c.ok("cudaFreeAsync", memory.free())?;
    c.ok("cudaStreamSynchronize", stream.synchronize())?;
    c.is(
        "used when it is freed",
        pool.get(Attr::cudaMemPoolAttrUsedMemCurrent)?,
        0,
    )?;
    c.succeeds("cudaMemPoolTrimTo", pool.trim(0))
}

fn refused(c: &Cuda<'_>) -> Verdict {
    match c.try_managed_pool(0) {
        Err(code) => c.refuses("cudaMemPoolCreate", code),
        Ok(_) => fail("cudaMemPoolCreate: there is a pool"),
    }
}

/// Checks that nothing of the pool is in use.
fn nothing_used(c: &Cuda<'_>, pool: &Pool<'_>) -> Verdict {
    let used = pool.get(Attr::cudaMemPoolAttrUsedMemCurrent)?;
    c.is("used when it is freed", used, 0)
}

fn freed_by_another_stream(c: &Cuda<'_>) -> Verdict {
    let (pool, first, second) = (pool(c)?, c.stream()?, c.stream()?);
    let memory = c.malloc_from_pool(&pool, BYTES, &first, true)?;
    c.ok("cudaStreamSynchronize", first.synchronize())?;
    memory.fill_all(1);
    let (gate, out) = (c.gate(&first)?, c.pinned(BYTES, 0)?);
    c.add(&memory, 1, &first)?;
    c.ok(
        "cudaMemcpyAsync",
        c.copy_async(&out, &memory, kind::DEFAULT, &first),
    )?;
    let used = c.event(UNTIMED)?;
    c.ok("cudaEventRecord", used.record(&first))?;
    c.ok("cudaStreamWaitEvent", second.wait(&used))?;
    c.succeeds("cudaFreeAsync", memory.free_on(&second))?;
    gate.open()?;
    c.succeeds("cudaStreamSynchronize", second.synchronize())?;
    c.is("the last use", out.value_all()?, 2)?;
    nothing_used(c, &pool)
}

fn freed_on_default_streams(c: &Cuda<'_>) -> Verdict {
    let (pool, stream) = (pool(c)?, c.stream()?);
    for raw in [0, LEGACY, PER_THREAD] {
        let memory = c.malloc_from_pool(&pool, BYTES, &stream, true)?;
        c.ok("cudaStreamSynchronize", stream.synchronize())?;
        memory.fill_all(1);
        let default = c.default_stream(raw);
        c.succeeds("cudaFreeAsync", memory.free_on(&default))?;
        c.succeeds("cudaStreamSynchronize", default.synchronize())?;
        nothing_used(c, &pool)?;
    }
    Ok(())
}

fn reused_in_order(c: &Cuda<'_>) -> Verdict {
    let (pool, first, second) = (pool(c)?, c.stream()?, c.stream()?);
    let out = c.pinned(BYTES, 0)?;
    let memory = c.malloc_from_pool(&pool, BYTES, &first, true)?;
    c.ok("cudaStreamSynchronize", first.synchronize())?;
    memory.fill_all(1);
    let gate = c.gate(&first)?;
    c.ok(
        "cudaMemcpyAsync",
        c.copy_async(&out, &memory, kind::DEFAULT, &first),
    )?;
    c.succeeds("cudaFreeAsync", memory.free())?;
    let other = c.malloc_from_pool(&pool, BYTES, &second, true)?;
    c.ok("cudaStreamSynchronize", second.synchronize())?;
    other.fill_all(9);
    gate.open()?;
    c.succeeds("cudaStreamSynchronize", first.synchronize())?;
    c.is("what the earlier work read", out.value_all()?, 1)?;
    c.ok("cudaFreeAsync", other.free())?;
    c.succeeds("cudaStreamSynchronize", second.synchronize())?;
    nothing_used(c, &pool)
}
