//! Memory pools: selection, contents, and release of memory.

use super::*;

/// A pool reserves memory in steps; this is more than one step.
const BYTES: usize = 32 * MIB;

const RESERVED: PoolAttr = PoolAttr::cudaMemPoolAttrReservedMemCurrent;
const RESERVED_HIGH: PoolAttr = PoolAttr::cudaMemPoolAttrReservedMemHigh;
const USED: PoolAttr = PoolAttr::cudaMemPoolAttrUsedMemCurrent;
const USED_HIGH: PoolAttr = PoolAttr::cudaMemPoolAttrUsedMemHigh;
const THRESHOLD: PoolAttr = PoolAttr::cudaMemPoolAttrReleaseThreshold;

cases! {
    /// A device allocates from its default pool until another is set.
    "pools.current-is-default" POOLS [cudaDeviceGetDefaultMemPool, cudaDeviceGetMemPool] (Pools) |c| {
        c.is("the same", c.default_pool(0) == c.current_pool(0), true);
    }
    /// Stream-ordered memory comes from the device's current pool.
    "pools.set-current" POOLS [cudaDeviceSetMemPool, cudaMallocAsync, cudaMemPoolGetAttribute] (Pools) |c, stream| {
        let (default, own) = (ok(c.default_pool(0)), c.pool());
        c.succeeds("cudaDeviceSetMemPool", c.set_current_pool(0, &own));
        let current = ok(c.current_pool(0));
        let memory = c.malloc_async(BYTES, &stream);
        let used = own.get(USED);
        let back = c.set_current_pool(0, default);
        c.holds("it is current", current == own.at());
        c.holds("its memory is used", used >= BYTES as u64);
        c.succeeds("back to the default", back);
        stream.free(memory).sync();
        c.is("used when it is freed", own.get(USED), 0);
    }
    /// The default pool of a device cannot be destroyed.
    "pools.default-stays" POOLS [cudaMemPoolDestroy] (Pools) |c, stream| {
        let pool = Pool::borrowed(c, ok(c.default_pool(0)));
        c.refuses("cudaMemPoolDestroy", c.pool_destroy(&pool));
        c.succeeds("it works on", c.malloc_from(&pool, 64 * KIB, &stream, false).free());
        stream.sync();
    }
    /// When the current pool is destroyed, the device uses its default pool again.
    "pools.destroy-current" POOLS [cudaMemPoolDestroy, cudaDeviceGetMemPool] (Pools) |c| {
        let (default, own) = (ok(c.default_pool(0)), c.pool());
        ok(c.set_current_pool(0, &own));
        let code = own.destroy();
        let current = ok(c.current_pool(0));
        ok(c.set_current_pool(0, default));
        c.succeeds("cudaMemPoolDestroy", code);
        c.is("the default is current", current == default, true);
    }
    /// A pool is destroyed at once, but its allocations stay valid until they are freed.
    "pools.destroy-in-use" POOLS [cudaMemPoolDestroy, cudaMallocFromPoolAsync] (Pools) |c, stream| {
        let pool = c.pool();
        let memory = c.malloc_from(&pool, 64 * KIB, &stream, false);
        c.succeeds("cudaMemPoolDestroy", pool.destroy());
        stream.set(&memory, 1).add(&memory, 1).done("the stream");
        c.is("contents", c.device_value(&memory), 0x0101_0102);
        c.succeeds("cudaFreeAsync", memory.free());
        stream.done("the stream");
    }
    /// A pool on a device that does not exist is refused.
    "pools.no-such-device" POOLS [cudaMemPoolCreate] (Pools) |c| {
        for device in [-1, 64] {
            c.refuses(format!("device {device}"), c.try_pool(1, device));
        }
    }
    /// A new pool is empty, releases all unused memory at a synchronization, and may reuse memory in all three ways.
    "pools.defaults" TYPES [cudaMemPoolGetAttribute] (Pools) |c| {
        let pool = c.pool();
        for (name, attribute) in [
            ("threshold", THRESHOLD), ("reserved", RESERVED), ("reserved at most", RESERVED_HIGH),
            ("used", USED), ("used at most", USED_HIGH),
        ] {
            c.is(name, pool.get(attribute), 0);
        }
        for (name, attribute) in [
            ("follow events", PoolAttr::cudaMemPoolReuseFollowEventDependencies),
            ("opportunistic", PoolAttr::cudaMemPoolReuseAllowOpportunistic),
            ("internal", PoolAttr::cudaMemPoolReuseAllowInternalDependencies),
        ] {
            // The value is an int: the upper half is not written.
            c.is(name, pool.get(attribute) as u32, 1);
        }
    }
    /// A pool counts the used bytes and their maximum, and the maximum can be reset to the present value.
    "pools.used" TYPES [cudaMemPoolGetAttribute, cudaMemPoolSetAttribute] (Pools) |c, stream| {
        let pool = c.pool();
        let first = c.malloc_from(&pool, BYTES, &stream, false);
        let second = c.malloc_from(&pool, MIB, &stream, false);
        let (all, both) = (pool.get(USED), (BYTES + MIB) as u64);
        c.holds("both are used", all >= both && all < 2 * both);
        c.is("at most", pool.get(USED_HIGH) == all, true);
        stream.free(first).sync();
        let one = pool.get(USED);
        c.holds("one is used", one >= MIB as u64 && one < BYTES as u64);
        c.is("at most, still", pool.get(USED_HIGH) == all, true);
        c.succeeds("set back", pool.set(USED_HIGH, 0));
        c.is("at most, now", pool.get(USED_HIGH) == one, true);
        stream.free(second).sync();
        c.is("used at the end", pool.get(USED), 0);
    }
    /// A pool reserves at least the used bytes.
    "pools.reserved" TYPES [cudaMemPoolGetAttribute] (Pools) |c, stream| {
        let pool = c.pool();
        let memory = c.malloc_from(&pool, BYTES, &stream, false);
        let (used, reserved) = (pool.get(USED), pool.get(RESERVED));
        c.holds("reserved >= used", reserved >= used && used >= BYTES as u64);
        c.holds("at most >= now", pool.get(RESERVED_HIGH) >= reserved);
        stream.free(memory).sync();
    }
    /// The maximum values can be set only to zero.
    "pools.marks-only-reset" TYPES [cudaMemPoolSetAttribute] (Pools) |c| {
        let pool = c.pool();
        for (name, attribute) in [("used", USED_HIGH), ("reserved", RESERVED_HIGH)] {
            c.refuses(format!("{name} at most, to 1"), pool.set(attribute, 1));
            c.succeeds(format!("{name} at most, to 0"), pool.set(attribute, 0));
        }
        for (name, attribute) in [("used", USED), ("reserved", RESERVED)] {
            c.refuses(name, pool.set(attribute, 0));
        }
    }
    /// Below the release threshold a pool keeps freed memory until it is trimmed.
    "pools.threshold-keeps" GUIDE_POOLS [cudaMemPoolSetAttribute, cudaMemPoolTrimTo] (Pools) |c, stream| {
        let pool = c.pool();
        c.succeeds("the threshold", pool.set(THRESHOLD, u64::MAX));
        c.is("read back", pool.get(THRESHOLD), u64::MAX);
        churn(c, &pool, &stream);
        let kept = pool.get(RESERVED);
        c.holds("it is kept", kept >= BYTES as u64);
        churn(c, &pool, &stream);
        c.is("and used again", pool.get(RESERVED) == kept, true);
        c.succeeds("trimmed", c.pool_trim(&pool, 0));
        c.is("reserved", pool.get(RESERVED), 0);
    }
    /// With a release threshold of 0 a pool releases freed memory when a stream is synchronized.
    "pools.threshold-zero-releases" GUIDE_POOLS [cudaFreeAsync, cudaStreamSynchronize] (Pools) |c, stream| {
        let pool = c.pool();
        churn(c, &pool, &stream);
        c.is("reserved", pool.get(RESERVED), 0);
    }
    /// Trimming does not change live allocations, and keeps at least the requested number of bytes.
    "pools.trim-keeps-what-is-used" POOLS [cudaMemPoolTrimTo] (Pools) |c, stream| {
        let pool = c.pool();
        ok(pool.set(THRESHOLD, u64::MAX));
        let memory = c.malloc_from(&pool, MIB, &stream, false);
        ok(c.memset_async(&memory, 4, MIB, &stream));
        churn(c, &pool, &stream);
        c.succeeds("trimmed to as much", c.pool_trim(&pool, BYTES));
        c.holds("as much is kept", pool.get(RESERVED) >= BYTES as u64);
        c.succeeds("trimmed to nothing", c.pool_trim(&pool, 0));
        c.holds("what is used is kept", pool.get(RESERVED) >= MIB as u64);
        c.is("contents", c.device_value(&memory), 0x0404_0404);
        stream.free(memory).sync();
    }
    /// A device's access to its own pool can be granted again, but not revoked.
    "pools.access-of-its-own-device" POOLS [cudaMemPoolSetAccess] (Pools) |c, stream| {
        let pool = c.pool();
        c.succeeds("given", pool.set_access(0, true));
        c.refuses("taken", pool.set_access(0, false));
        c.refuses("given to a device that does not exist", pool.set_access(64, true));
        churn(c, &pool, &stream);
    }
}

/// Allocates from the pool, frees it, and waits for the stream.
fn churn(c: &Cuda<'_>, pool: &Pool<'_>, stream: &Stream<'_>) {
    let memory = c.malloc_from(pool, BYTES, stream, false);
    stream.add(&memory, 1);
    stream.free(memory).sync();
}
