//! Memory pools: selection, contents, and release of memory.

use super::prelude::*;
use crate::call::Pool;
use cuda_um_sys::cudaMemPoolAttr as Attr;

/// A pool reserves memory in steps; this is more than one step.
const BYTES: usize = 32 * MIB;

const RESERVED: Attr = Attr::cudaMemPoolAttrReservedMemCurrent;
const RESERVED_HIGH: Attr = Attr::cudaMemPoolAttrReservedMemHigh;
const USED: Attr = Attr::cudaMemPoolAttrUsedMemCurrent;
const USED_HIGH: Attr = Attr::cudaMemPoolAttrUsedMemHigh;
const THRESHOLD: Attr = Attr::cudaMemPoolAttrReleaseThreshold;

pub(super) const CASES: &[Case] = cases! {
    "pools.current-is-default" (current_is_default):
        "A device allocates from its default pool until another is set.",
        sources::POOLS, &["cudaDeviceGetDefaultMemPool", "cudaDeviceGetMemPool"], needs(&[Need::Pools]);
    "pools.set-current" (set_current):
        "Stream-ordered memory comes from the device's current pool.",
        sources::POOLS, &["cudaDeviceSetMemPool", "cudaMallocAsync", "cudaMemPoolGetAttribute"], needs(&[Need::Pools]);
    "pools.default-stays" (default_stays):
        "The default pool of a device cannot be destroyed.",
        sources::POOLS, &["cudaMemPoolDestroy"], needs(&[Need::Pools]);
    "pools.destroy-current" (destroy_current):
        "When the current pool is destroyed, the device uses its default pool again.",
        sources::POOLS, &["cudaMemPoolDestroy", "cudaDeviceGetMemPool"], needs(&[Need::Pools]);
    "pools.destroy-in-use" (destroy_in_use):
        "A pool is destroyed at once, but its allocations stay valid until they are freed.",
        sources::POOLS, &["cudaMemPoolDestroy", "cudaMallocFromPoolAsync"], needs(&[Need::Pools]);
    "pools.no-such-device" (no_such_device):
        "A pool on a device that does not exist is refused.",
        sources::POOLS, &["cudaMemPoolCreate"], needs(&[Need::Pools]);
    "pools.defaults" (defaults):
        "A new pool is empty, releases all unused memory at a synchronization, and may reuse memory in all three ways.",
        sources::TYPES, &["cudaMemPoolGetAttribute"], needs(&[Need::Pools]);
    "pools.used" (used):
        "A pool counts the used bytes and their maximum, and the maximum can be reset to the present value.",
        sources::TYPES, &["cudaMemPoolGetAttribute", "cudaMemPoolSetAttribute"], needs(&[Need::Pools]);
    "pools.reserved" (reserved):
        "A pool reserves at least the used bytes.",
        sources::TYPES, &["cudaMemPoolGetAttribute"], needs(&[Need::Pools]);
    "pools.marks-only-reset" (marks_only_reset):
        "The maximum values can be set only to zero.",
        sources::TYPES, &["cudaMemPoolSetAttribute"], needs(&[Need::Pools]);
    "pools.threshold-keeps" (threshold_keeps):
        "Below the release threshold a pool keeps freed memory until it is trimmed.",
        sources::GUIDE_POOLS, &["cudaMemPoolSetAttribute", "cudaMemPoolTrimTo"], needs(&[Need::Pools]);
    "pools.threshold-zero-releases" (threshold_zero_releases):
        "With a release threshold of 0 a pool releases freed memory when a stream is synchronized.",
        sources::GUIDE_POOLS, &["cudaFreeAsync", "cudaStreamSynchronize"], needs(&[Need::Pools]);
    "pools.trim-keeps-what-is-used" (trim_keeps_what_is_used):
        "Trimming does not change live allocations, and keeps at least the requested number of bytes.",
        sources::POOLS, &["cudaMemPoolTrimTo"], needs(&[Need::Pools]);
    "pools.access-of-its-own-device" (access_of_its_own_device):
        "A device's access to its own pool can be granted again, but not revoked.",
        sources::POOLS, &["cudaMemPoolSetAccess"], needs(&[Need::Pools]);
};

fn current_is_default(c: &Cuda<'_>) -> Verdict {
    c.is(
        "the same",
        c.device_pool(true)?.raw() == c.device_pool(false)?.raw(),
        true,
    )
}

fn set_current(c: &Cuda<'_>) -> Verdict {
    let (default, own, stream) = (c.device_pool(true)?, c.pool()?, c.stream()?);
    c.succeeds("cudaDeviceSetMemPool", c.set_device_pool(&own))?;
    let current = c.device_pool(false)?.raw();
    let memory = c.malloc_async(BYTES, &stream);
    let used = own.get(USED);
    let back = c.set_device_pool(&default);
    c.holds("it is current", current == own.raw())?;
    c.holds("its memory is used", used? >= BYTES as u64)?;
    c.succeeds("back to the default", back)?;
    c.ok("cudaFreeAsync", memory?.free())?;
    c.ok("cudaStreamSynchronize", stream.synchronize())?;
    c.is("used when it is freed", own.get(USED)?, 0)
}

fn default_stays(c: &Cuda<'_>) -> Verdict {
    let (pool, stream) = (c.device_pool(true)?, c.stream()?);
    c.refuses("cudaMemPoolDestroy", pool.destroy_default())?;
    let memory = c.malloc_from_pool(&pool, 64 * KIB, &stream, false)?;
    c.succeeds("it works on", memory.free())?;
    c.ok("cudaStreamSynchronize", stream.synchronize())
}

fn destroy_current(c: &Cuda<'_>) -> Verdict {
    let (default, own) = (c.device_pool(true)?, c.pool()?);
    c.ok("cudaDeviceSetMemPool", c.set_device_pool(&own))?;
    let code = own.destroy();
    let current = c.device_pool(false)?.raw();
    c.ok("cudaDeviceSetMemPool", c.set_device_pool(&default))?;
    c.succeeds("cudaMemPoolDestroy", code)?;
    c.is("the default is current", current == default.raw(), true)
}

fn destroy_in_use(c: &Cuda<'_>) -> Verdict {
    let (pool, stream) = (c.pool()?, c.stream()?);
    let memory = c.malloc_from_pool(&pool, 64 * KIB, &stream, false)?;
    c.succeeds("cudaMemPoolDestroy", pool.destroy())?;
    c.ok(
        "cudaMemsetAsync",
        c.set_async(&memory, 1, memory.bytes(), &stream),
    )?;
    c.add(&memory, 1, &stream)?;
    c.succeeds("the stream", stream.synchronize())?;
    c.is("contents", c.device_value(&memory)?, 0x0101_0102)?;
    c.succeeds("cudaFreeAsync", memory.free())?;
    c.succeeds("the stream", stream.synchronize())
}

fn no_such_device(c: &Cuda<'_>) -> Verdict {
    for device in [-1, 64] {
        match c.try_device_pool(device) {
            Err(code) => c.refuses(&format!("device {device}"), code)?,
            Ok(_) => return fail(format!("there is a pool on device {device}")),
        }
    }
    Ok(())
}

fn defaults(c: &Cuda<'_>) -> Verdict {
    let pool = c.pool()?;
    for (name, attribute) in [
        ("threshold", THRESHOLD),
        ("reserved", RESERVED),
        ("reserved at most", RESERVED_HIGH),
        ("used", USED),
        ("used at most", USED_HIGH),
    ] {
        c.is(name, pool.get(attribute)?, 0)?;
    }
    for (name, attribute) in [
        (
            "follow events",
            Attr::cudaMemPoolReuseFollowEventDependencies,
        ),
        ("opportunistic", Attr::cudaMemPoolReuseAllowOpportunistic),
        ("internal", Attr::cudaMemPoolReuseAllowInternalDependencies),
    ] {
        // The value is an int: the upper half is not written.
        c.is(name, pool.get(attribute)? as u32, 1)?;
    }
    Ok(())
}

fn used(c: &Cuda<'_>) -> Verdict {
    let (pool, stream) = (c.pool()?, c.stream()?);
    let first = c.malloc_from_pool(&pool, BYTES, &stream, false)?;
    let second = c.malloc_from_pool(&pool, MIB, &stream, false)?;
    let (all, both) = (pool.get(USED)?, (BYTES + MIB) as u64);
    c.holds("both are used", all >= both && all < 2 * both)?;
    c.is("at most", pool.get(USED_HIGH)? == all, true)?;
    c.ok("cudaFreeAsync", first.free())?;
    c.ok("cudaStreamSynchronize", stream.synchronize())?;
    let one = pool.get(USED)?;
    c.holds("one is used", one >= MIB as u64 && one < BYTES as u64)?;
    c.is("at most, still", pool.get(USED_HIGH)? == all, true)?;
    c.succeeds("set back", pool.set(USED_HIGH, 0))?;
    c.is("at most, now", pool.get(USED_HIGH)? == one, true)?;
    c.ok("cudaFreeAsync", second.free())?;
    c.ok("cudaStreamSynchronize", stream.synchronize())?;
    c.is("used at the end", pool.get(USED)?, 0)
}

fn reserved(c: &Cuda<'_>) -> Verdict {
    let (pool, stream) = (c.pool()?, c.stream()?);
    let memory = c.malloc_from_pool(&pool, BYTES, &stream, false)?;
    let (used, reserved) = (pool.get(USED)?, pool.get(RESERVED)?);
    c.holds("reserved >= used", reserved >= used && used >= BYTES as u64)?;
    c.holds("at most >= now", pool.get(RESERVED_HIGH)? >= reserved)?;
    c.ok("cudaFreeAsync", memory.free())?;
    c.ok("cudaStreamSynchronize", stream.synchronize())
}

fn marks_only_reset(c: &Cuda<'_>) -> Verdict {
    let pool = c.pool()?;
    for (name, attribute) in [("used", USED_HIGH), ("reserved", RESERVED_HIGH)] {
        c.refuses(&format!("{name} at most, to 1"), pool.set(attribute, 1))?;
        c.succeeds(&format!("{name} at most, to 0"), pool.set(attribute, 0))?;
    }
    for (name, attribute) in [("used", USED), ("reserved", RESERVED)] {
        c.refuses(name, pool.set(attribute, 0))?;
    }
    Ok(())
}

/// Allocates from the pool, frees it, and waits for the stream.
fn churn(c: &Cuda<'_>, pool: &Pool<'_>, stream: &Stream<'_>) -> Verdict {
    let memory = c.malloc_from_pool(pool, BYTES, stream, false)?;
    c.add(&memory, 1, stream)?;
    c.ok("cudaFreeAsync", memory.free())?;
    c.ok("cudaStreamSynchronize", stream.synchronize())
}

fn threshold_keeps(c: &Cuda<'_>) -> Verdict {
    let (pool, stream) = (c.pool()?, c.stream()?);
    c.succeeds("the threshold", pool.set(THRESHOLD, u64::MAX))?;
    c.is("read back", pool.get(THRESHOLD)?, u64::MAX)?;
    churn(c, &pool, &stream)?;
    let kept = pool.get(RESERVED)?;
    c.holds("it is kept", kept >= BYTES as u64)?;
    churn(c, &pool, &stream)?;
    c.is("and used again", pool.get(RESERVED)? == kept, true)?;
    c.succeeds("trimmed", pool.trim(0))?;
    c.is("reserved", pool.get(RESERVED)?, 0)
}

fn threshold_zero_releases(c: &Cuda<'_>) -> Verdict {
    let (pool, stream) = (c.pool()?, c.stream()?);
    churn(c, &pool, &stream)?;
    c.is("reserved", pool.get(RESERVED)?, 0)
}

fn trim_keeps_what_is_used(c: &Cuda<'_>) -> Verdict {
    let (pool, stream) = (c.pool()?, c.stream()?);
    c.ok("the threshold", pool.set(THRESHOLD, u64::MAX))?;
    let memory = c.malloc_from_pool(&pool, MIB, &stream, false)?;
    c.ok("cudaMemsetAsync", c.set_async(&memory, 4, MIB, &stream))?;
    churn(c, &pool, &stream)?;
    c.succeeds("trimmed to as much", pool.trim(BYTES))?;
    c.holds("as much is kept", pool.get(RESERVED)? >= BYTES as u64)?;
    c.succeeds("trimmed to nothing", pool.trim(0))?;
    let reserved = pool.get(RESERVED)?;
    c.holds("what is used is kept", reserved >= MIB as u64)?;
    c.is("contents", c.device_value(&memory)?, 0x0404_0404)?;
    c.ok("cudaFreeAsync", memory.free())?;
    c.ok("cudaStreamSynchronize", stream.synchronize())
}

fn access_of_its_own_device(c: &Cuda<'_>) -> Verdict {
    let (pool, stream) = (c.pool()?, c.stream()?);
    c.succeeds("given", pool.set_access(0, true))?;
    c.refuses("taken", pool.set_access(0, false))?;
    c.refuses(
        "given to a device that does not exist",
        pool.set_access(64, true),
    )?;
    churn(c, &pool, &stream)
}
