//! Pools of managed memory, from CUDA 13.0 on.

use super::*;

const BYTES: usize = 2 * MIB;
/// `cudaMemoryTypeManaged`
const MANAGED: u32 = 3;

cases! {
    /// Memory of a managed pool has one address for host and kernels, like other managed memory.
    "pools-managed.host-and-kernel" GUIDE_POOLS [cudaMemPoolCreate, cudaMallocFromPoolAsync, cudaFreeAsync] (Since(13, 0), Concurrent, Pools) |c, stream| {
        let pool = pool(c);
        for round in 0..3 {
            let memory = ready(c, &pool, &stream);
            memory.fill_all(round);
            stream.add(&memory, 5).sync();
            c.is("what the host reads", memory.value_all(), round + 5);
            c.succeeds("cudaFreeAsync", memory.free());
        }
        stream.done("cudaStreamSynchronize");
    }
    /// Memory of a managed pool is reported as managed.
    "pools-managed.pointer" UNIFIED [cudaMallocFromPoolAsync, cudaPointerGetAttributes] (Since(13, 0), Concurrent, Pools) |c, stream| {
        let pool = pool(c);
        let memory = ready(c, &pool, &stream);
        let pointer = ok(c.pointer(memory.at()));
        c.is("the kind", pointer.type_.0, MANAGED);
        let both = [pointer.devicePointer.at(), pointer.hostPointer.at()];
        c.holds("one address", both == [memory.at(); 2]);
    }
    /// Memory of a managed pool is prefetched like other managed memory.
    "pools-managed.prefetch" MEMORY [cudaMallocFromPoolAsync, cudaMemPrefetchAsync] (Since(13, 0), Concurrent, Pools) |c, stream| {
        let pool = pool(c);
        let memory = ready(c, &pool, &stream);
        memory.fill_all(1);
        c.succeeds("to the device", c.prefetch(&memory, DEVICE, &stream));
        stream.add(&memory, 1);
        c.succeeds("to the host", c.prefetch(&memory, HOST, &stream));
        stream.done("cudaStreamSynchronize");
        c.is("last prefetched to", c.told(&memory, LastPrefetch), -1);
        c.is("contents", memory.value_all(), 2);
    }
    /// Memory of a managed pool takes no advice: it must be memory of cudaMallocManaged.
    "pools-managed.advice" UNIFIED [cudaMemAdvise, cudaMallocFromPoolAsync] (Since(13, 0), Concurrent, Pools) |c, stream| {
        let pool = pool(c);
        let memory = ready(c, &pool, &stream);
        for number in 1..=6 {
            for (name, place) in [("the device", DEVICE), ("the host", HOST)] {
                c.refuses(format!("advice {number} with {name}"), c.advise(&memory, number, place));
            }
        }
    }
    /// The used bytes of a managed pool are counted as in other pools.
    "pools-managed.counted" TYPES [cudaMemPoolGetAttribute, cudaMemPoolTrimTo] (Since(13, 0), Concurrent, Pools) |c, stream| {
        let pool = pool(c);
        let memory = c.malloc_from(&pool, BYTES, &stream, true);
        c.holds("used", pool.get(PoolAttr::cudaMemPoolAttrUsedMemCurrent) >= BYTES as u64);
        stream.free(memory).sync();
        c.is("used when it is freed", pool.get(PoolAttr::cudaMemPoolAttrUsedMemCurrent), 0);
        c.succeeds("cudaMemPoolTrimTo", c.pool_trim(&pool, 0));
    }
    /// Another stream frees the memory of a managed pool in its own order, after it has waited for the last use.
    "pools-managed.freed-by-another-stream" GUIDE_POOLS [cudaStreamWaitEvent, cudaFreeAsync, cudaMemPoolGetAttribute] (Since(13, 0), Concurrent, Pools) |c, first, second| {
        let pool = pool(c);
        let memory = ready(c, &pool, &first);
        memory.fill_all(1);
        let (gate, out) = (c.gate(&first), c.pinned(BYTES, 0));
        first.add(&memory, 1).copy(&out, &memory);
        let used = c.mark();
        first.record(&used);
        second.join(&used);
        c.succeeds("cudaFreeAsync", memory.free_on(&second));
        gate.open();
        second.ends("the last use", &out, 2);
        nothing_used(c, &pool);
    }
    /// Memory of a managed pool is freed on the legacy and on the per-thread default stream.
    "pools-managed.freed-on-default-streams" GUIDE_POOLS [cudaFreeAsync, cudaMemPoolGetAttribute] (Since(13, 0), Concurrent, Pools) |c, stream| {
        let pool = pool(c);
        for raw in [0, LEGACY, PER_THREAD] {
            let memory = ready(c, &pool, &stream);
            memory.fill_all(1);
            let default = c.stream_at(raw);
            c.succeeds("cudaFreeAsync", memory.free_on(&default));
            default.done("cudaStreamSynchronize");
            nothing_used(c, &pool);
        }
    }
    /// Memory of a managed pool that is freed while earlier work still uses it is not reused before this work is done.
    "pools-managed.reused-in-order" GUIDE_POOLS [cudaFreeAsync, cudaMallocFromPoolAsync] (Since(13, 0), Concurrent, Pools) |c, first, second| {
        let (pool, out) = (pool(c), c.pinned(BYTES, 0));
        let memory = ready(c, &pool, &first);
        memory.fill_all(1);
        let gate = c.gate(&first);
        first.copy(&out, &memory);
        c.succeeds("cudaFreeAsync", memory.free());
        let other = ready(c, &pool, &second);
        other.fill_all(9);
        gate.open();
        first.ends("what the earlier work read", &out, 1);
        second.free(other).done("cudaStreamSynchronize");
        nothing_used(c, &pool);
    }
    /// Before CUDA 13.0 a pool of managed memory is refused.
    "pools-managed.older-refuse" TYPES [cudaMemPoolCreate] (Before(13, 0), Pools) |c| {
        c.refuses("cudaMemPoolCreate", c.try_pool(2, 0));
    }
    /// A device without concurrent managed access refuses a pool of managed memory.
    "pools-managed.needs-concurrent-access" POOLS [cudaMemPoolCreate] (Since(13, 0), NoConcurrent) |c| {
        c.refuses("cudaMemPoolCreate", c.try_pool(2, 0));
    }
}

/// A pool of managed memory that keeps its pages: otherwise every synchronization releases them, which takes long.
fn pool<'c>(c: &'c Cuda<'c>) -> Pool<'c> {
    let pool = ok(c.try_pool(2, 0));
    ok(pool.set(PoolAttr::cudaMemPoolAttrReleaseThreshold, u64::MAX));
    pool
}

/// Memory of the pool that the host may use.
fn ready<'c>(c: &'c Cuda<'c>, pool: &Pool<'_>, stream: &Stream<'_>) -> Memory<'c> {
    let memory = c.malloc_from(pool, BYTES, stream, true);
    stream.sync();
    memory
}

/// Checks that nothing of the pool is in use.
fn nothing_used(c: &Cuda<'_>, pool: &Pool<'_>) {
    let used = pool.get(PoolAttr::cudaMemPoolAttrUsedMemCurrent);
    c.is("used when it is freed", used, 0);
}
