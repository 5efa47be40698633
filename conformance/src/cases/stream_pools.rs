//! Stream-ordered allocation.

use super::prelude::*;
use cuda_um_sys as sys;

const BYTES: usize = 256 * KIB;
const UNTIMED: u32 = sys::cudaEventDisableTiming;

pub(super) const CASES: &[Case] = cases! {
    "stream-pools.in-order" (in_order):
        "Memory is allocated, used and freed in the order of a stream, without host waits in between.",
        sources::GUIDE_POOLS, &["cudaMallocAsync", "cudaFreeAsync"], needs(&[Need::Pools]);
    "stream-pools.do-not-wait" (do_not_wait):
        "Allocating and freeing do not wait for the stream.",
        sources::GUIDE_POOLS, &["cudaMallocAsync", "cudaFreeAsync"], needs(&[Need::Pools]);
    "stream-pools.live-do-not-overlap" (live_do_not_overlap):
        "Live allocations do not overlap, also after frees between them, and are aligned to 256 bytes.",
        sources::GUIDE_POOLS, &["cudaMallocAsync", "cudaFreeAsync"], needs(&[Need::Pools]);
    "stream-pools.other-stream-behind-event" (other_stream_behind_event):
        "Another stream can use the memory after it has waited for the allocation, and can free it in its own order.",
        sources::GUIDE_POOLS, &["cudaMallocAsync", "cudaStreamWaitEvent", "cudaFreeAsync"], needs(&[Need::Pools]);
    "stream-pools.free-comes-behind-the-work" (free_comes_behind_the_work):
        "Memory that is freed while earlier work still uses it is not reused before this work is done.",
        sources::GUIDE_POOLS, &["cudaFreeAsync", "cudaMallocAsync"], needs(&[Need::Pools]);
    "stream-pools.synchronous-free" (synchronous_free):
        "Memory of a pool may be freed with cudaFree.",
        sources::GUIDE_POOLS, &["cudaMallocAsync", "cudaFree"], needs(&[Need::Pools]);
    "stream-pools.too-much" (too_much):
        "An allocation larger than the device is out of memory, and the stream can still be used.",
        sources::POOLS, &["cudaMallocAsync"], needs(&[Need::Pools, Need::NoPageableAccess]);
    "stream-pools.foreign-not-freed" (foreign_not_freed):
        "A stream-ordered free refuses an address that CUDA does not know.",
        sources::POOLS, &["cudaFreeAsync"], needs(&[Need::Pools]), misuse();
    "stream-pools.default-stream" (default_stream):
        "The legacy and the per-thread default stream can also allocate.",
        sources::POOLS, &["cudaMallocAsync", "cudaFreeAsync"], needs(&[Need::Pools]);
    "stream-pools.not-supported" (not_supported):
        "A device without memory pools reports this.",
        sources::POOLS, &["cudaMallocAsync", "cudaMemPoolCreate"], needs(&[Need::NoPools]);
};

fn in_order(c: &Cuda<'_>) -> Verdict {
    let (out, stream) = (c.pinned(BYTES, 0)?, c.stream()?);
    for round in 1..=8 {
        let memory = c.malloc_async(BYTES, &stream)?;
        c.ok("cudaMemsetAsync", c.set_async(&memory, 0, BYTES, &stream))?;
        c.add(&memory, round, &stream)?;
        c.ok(
            "cudaMemcpyAsync",
            c.copy_async(&out, &memory, kind::DEFAULT, &stream),
        )?;
        c.succeeds("cudaFreeAsync", memory.free())?;
        c.ok("cudaStreamSynchronize", stream.synchronize())?;
        c.is("read back", out.value_all()?, round)?;
    }
    Ok(())
}

fn do_not_wait(c: &Cuda<'_>) -> Verdict {
    let (out, stream) = (c.pinned(BYTES, 0)?, c.stream()?);
    // The pool already has memory: nothing must be mapped while the stream is held.
    let first = c.malloc_async(BYTES, &stream)?;
    let gate = c.gate(&stream)?;
    let memory = c.malloc_async(BYTES, &stream)?;
    c.ok("cudaMemsetAsync", c.set_async(&memory, 3, BYTES, &stream))?;
    c.ok(
        "cudaMemcpyAsync",
        c.copy_async(&out, &memory, kind::DEFAULT, &stream),
    )?;
    c.succeeds("cudaFreeAsync", memory.free())?;
    c.gives("the stream", stream.query(), Code::NOT_READY)?;
    gate.open()?;
    c.succeeds("cudaFreeAsync", first.free())?;
    c.succeeds("cudaStreamSynchronize", stream.synchronize())?;
    c.is("read back", out.value_all()?, 0x0303_0303)
}

fn live_do_not_overlap(c: &Cuda<'_>) -> Verdict {
    let stream = c.stream()?;
    let mut live = Vec::new();
    for bytes in [4, 1000, 4096, 70_000, 300_000, MIB, 100, 4 * MIB] {
        let gone = c.malloc_async(bytes, &stream)?;
        live.push(c.malloc_async(bytes, &stream)?);
        c.ok("cudaFreeAsync", gone.free())?;
    }
    c.holds(
        "aligned",
        live.iter().all(|memory| memory.address() % 256 == 0),
    )?;
    live.sort_by_key(Memory::address);
    let apart = live
        .windows(2)
        .all(|pair| pair[0].address() + pair[0].bytes() <= pair[1].address());
    c.holds("they do not overlap", apart)?;
    for (value, memory) in live.iter().enumerate() {
        c.ok(
            "cudaMemsetAsync",
            c.set_async(memory, value as i32 + 1, memory.bytes(), &stream),
        )?;
    }
    c.ok("cudaStreamSynchronize", stream.synchronize())?;
    for (value, memory) in live.iter().enumerate() {
        c.is(
            "contents",
            c.device_value(memory)?,
            (value as u32 + 1) * 0x0101_0101,
        )?;
    }
    Ok(())
}

fn other_stream_behind_event(c: &Cuda<'_>) -> Verdict {
    let (first, second, out) = (c.stream()?, c.stream()?, c.pinned(BYTES, 0)?);
    let event = c.event(UNTIMED)?;
    let memory = c.malloc_async(BYTES, &first)?;
    c.ok("cudaMemsetAsync", c.set_async(&memory, 0, BYTES, &first))?;
    c.ok("cudaEventRecord", event.record(&first))?;
    c.ok("cudaStreamWaitEvent", second.wait(&event))?;
    c.add(&memory, 17, &second)?;
    c.ok(
        "cudaMemcpyAsync",
        c.copy_async(&out, &memory, kind::DEFAULT, &second),
    )?;
    c.succeeds("cudaFreeAsync on the other stream", memory.free_on(&second))?;
    c.succeeds("cudaStreamSynchronize", second.synchronize())?;
    c.is("read back", out.value_all()?, 17)
}

fn free_comes_behind_the_work(c: &Cuda<'_>) -> Verdict {
    let (held, other) = (c.stream()?, c.stream()?);
    let (out, other_out) = (c.pinned(BYTES, 0)?, c.pinned(BYTES, 0)?);
    let gate = c.gate(&held)?;
    let memory = c.malloc_async(BYTES, &held)?;
    c.ok("cudaMemsetAsync", c.set_async(&memory, 1, BYTES, &held))?;
    c.ok(
        "cudaMemcpyAsync",
        c.copy_async(&out, &memory, kind::DEFAULT, &held),
    )?;
    c.ok("cudaFreeAsync", memory.free())?;
    // The same size, on a stream that is not ordered after the free.
    let next = c.malloc_async(BYTES, &other)?;
    c.ok("cudaMemsetAsync", c.set_async(&next, 2, BYTES, &other))?;
    gate.release();
    c.succeeds("the first stream", held.synchronize())?;
    c.ok(
        "cudaMemcpyAsync",
        c.copy_async(&other_out, &next, kind::DEFAULT, &other),
    )?;
    c.ok("cudaFreeAsync", next.free())?;
    c.succeeds("the other stream", other.synchronize())?;
    c.is("what the first read", out.value_all()?, 0x0101_0101)?;
    c.is("what the other read", other_out.value_all()?, 0x0202_0202)
}

fn synchronous_free(c: &Cuda<'_>) -> Verdict {
    let stream = c.stream()?;
    let memory = c.malloc_async(BYTES, &stream)?;
    c.add(&memory, 1, &stream)?;
    c.ok("cudaStreamSynchronize", stream.synchronize())?;
    c.succeeds("cudaFree", memory.free_now())
}

fn too_much(c: &Cuda<'_>) -> Verdict {
    let (stream, (_, total)) = (c.stream()?, c.memory_info()?);
    let (code, _) = c.try_async(2 * total, &stream);
    c.gives(
        "cudaMallocAsync of twice the device",
        code,
        Code::OUT_OF_MEMORY,
    )?;
    let memory = c.malloc_async(BYTES, &stream)?;
    c.ok("cudaMemsetAsync", c.set_async(&memory, 1, BYTES, &stream))?;
    c.succeeds("the stream", stream.synchronize())
}

fn foreign_not_freed(c: &Cuda<'_>) -> Verdict {
    let (stream, own) = (c.stream()?, vec![0u32; 1024]);
    c.refuses(
        "cudaFreeAsync of pageable memory",
        c.free_async_address(own.as_ptr() as usize, stream.raw()),
    )?;
    c.succeeds("the stream", stream.synchronize())
}

fn default_stream(c: &Cuda<'_>) -> Verdict {
    let out = c.pinned(BYTES, 0)?;
    for raw in [0, LEGACY, PER_THREAD] {
        out.fill_all(0);
        let stream = c.default_stream(raw);
        let memory = c.malloc_async(BYTES, &stream)?;
        c.ok("cudaMemsetAsync", c.set_async(&memory, 5, BYTES, &stream))?;
        c.ok(
            "cudaMemcpyAsync",
            c.copy_async(&out, &memory, kind::DEFAULT, &stream),
        )?;
        c.succeeds("cudaFreeAsync", memory.free())?;
        c.ok("cudaStreamSynchronize", stream.synchronize())?;
        c.is("read back", out.value_all()?, 0x0505_0505)?;
    }
    Ok(())
}

fn not_supported(c: &Cuda<'_>) -> Verdict {
    let stream = c.stream()?;
    let (code, _) = c.try_async(BYTES, &stream);
    c.gives("cudaMallocAsync", code, Code::NOT_SUPPORTED)?;
    match c.try_device_pool(0) {
        Err(code) => c.gives("cudaMemPoolCreate", code, Code::NOT_SUPPORTED),
        Ok(_) => fail("cudaMemPoolCreate: there is a pool"),
    }
}
