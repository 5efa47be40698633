//! Stream-ordered allocation.

use super::*;

const BYTES: usize = 256 * KIB;

cases! {
    /// Memory is allocated, used and freed in the order of a stream, without host waits in between.
    "stream-pools.in-order" GUIDE_POOLS [cudaMallocAsync, cudaFreeAsync] (Pools) |c, stream| {
        let out = c.pinned(BYTES, 0);
        for round in 1..=8 {
            let memory = c.malloc_async(BYTES, &stream);
            stream.set(&memory, 0).add(&memory, round).copy(&out, &memory);
            c.succeeds("cudaFreeAsync", memory.free());
            stream.after("read back", &out, round);
        }
    }
    /// Allocating and freeing do not wait for the stream.
    "stream-pools.do-not-wait" GUIDE_POOLS [cudaMallocAsync, cudaFreeAsync] (Pools) |c, stream| {
        let out = c.pinned(BYTES, 0);
        // The pool already has memory: nothing must be mapped while the stream is held.
        let first = c.malloc_async(BYTES, &stream);
        let gate = c.gate(&stream);
        let memory = c.malloc_async(BYTES, &stream);
        stream.set(&memory, 3).copy(&out, &memory);
        c.succeeds("cudaFreeAsync", memory.free());
        gate.opens("the stream", stream.query());
        c.succeeds("cudaFreeAsync", first.free());
        stream.ends("read back", &out, 0x0303_0303);
    }
    /// Live allocations do not overlap, also after frees between them, and are aligned to 256 bytes.
    "stream-pools.live-do-not-overlap" GUIDE_POOLS [cudaMallocAsync, cudaFreeAsync] (Pools) |c, stream| {
        let mut live = Vec::new();
        for bytes in [4, 1000, 4096, 70_000, 300_000, MIB, 100, 4 * MIB] {
            let gone = c.malloc_async(bytes, &stream);
            live.push(c.malloc_async(bytes, &stream));
            ok(gone.free());
        }
        c.holds("aligned", live.iter().all(|memory| memory.at() % 256 == 0));
        live.sort_by_key(|memory| memory.at());
        let apart = live.windows(2).all(|pair| pair[0].at() + pair[0].bytes() <= pair[1].at());
        c.holds("they do not overlap", apart);
        for (value, memory) in live.iter().enumerate() {
            ok(c.memset_async(memory, value as i32 + 1, memory.bytes(), &stream));
        }
        stream.sync();
        for (value, memory) in live.iter().enumerate() {
            c.is("contents", c.device_value(memory), (value as u32 + 1) * 0x0101_0101);
        }
    }
    /// Another stream can use the memory after it has waited for the allocation, and can free it in its own order.
    "stream-pools.other-stream-behind-event" GUIDE_POOLS [cudaMallocAsync, cudaStreamWaitEvent, cudaFreeAsync] (Pools) |c, first, second; event| {
        let out = c.pinned(BYTES, 0);
        let memory = c.malloc_async(BYTES, &first);
        first.set(&memory, 0).record(&event);
        second.join(&event).add(&memory, 17).copy(&out, &memory);
        c.succeeds("cudaFreeAsync on the other stream", memory.free_on(&second));
        second.ends("read back", &out, 17);
    }
    /// Memory that is freed while earlier work still uses it is not reused before this work is done.
    "stream-pools.free-comes-behind-the-work" GUIDE_POOLS [cudaFreeAsync, cudaMallocAsync] (Pools) |c, held, other| {
        let (out, other_out) = (c.pinned(BYTES, 0), c.pinned(BYTES, 0));
        let gate = c.gate(&held);
        let memory = c.malloc_async(BYTES, &held);
        held.set(&memory, 1).copy(&out, &memory);
        ok(memory.free());
        // The same size, on a stream that is not ordered after the free.
        let next = c.malloc_async(BYTES, &other);
        other.set(&next, 2);
        gate.release();
        held.done("the first stream");
        other.copy(&other_out, &next);
        other.free(next).done("the other stream");
        c.is("what the first read", out.value_all(), 0x0101_0101);
        c.is("what the other read", other_out.value_all(), 0x0202_0202);
    }
    /// Memory of a pool may be freed with cudaFree.
    "stream-pools.synchronous-free" GUIDE_POOLS [cudaMallocAsync, cudaFree] (Pools) |c, stream| {
        let memory = c.malloc_async(BYTES, &stream);
        stream.add(&memory, 1).sync();
        c.succeeds("cudaFree", memory.free_now());
    }
    /// An allocation larger than the device is out of memory, and the stream can still be used.
    "stream-pools.too-much" POOLS [cudaMallocAsync] (Pools, NoPageableAccess) |c| {
        let (stream, (_, total)) = (c.stream(), ok(c.memory_info()));
        let too_much = c.malloc_in_order(2 * total, &stream);
        c.gives("cudaMallocAsync of twice the device", too_much, OUT_OF_MEMORY);
        let memory = c.malloc_async(BYTES, &stream);
        stream.set(&memory, 1).done("the stream");
    }
    /// A stream-ordered free refuses an address that CUDA does not know.
    "stream-pools.foreign-not-freed" POOLS [cudaFreeAsync] (Pools) misuse |c, stream| {
        let own = vec![0u32; 1024];
        c.refuses("cudaFreeAsync of pageable memory", c.free_async(own.as_ptr(), &stream));
        stream.done("the stream");
    }
    /// The legacy and the per-thread default stream can also allocate.
    "stream-pools.default-stream" POOLS [cudaMallocAsync, cudaFreeAsync] (Pools) |c| {
        let out = c.pinned(BYTES, 0);
        for raw in [0, LEGACY, PER_THREAD] {
            out.fill_all(0);
            let stream = c.stream_at(raw);
            let memory = c.malloc_async(BYTES, &stream);
            stream.set(&memory, 5).copy(&out, &memory);
            c.succeeds("cudaFreeAsync", memory.free());
            stream.after("read back", &out, 0x0505_0505);
        }
    }
    /// A device without memory pools reports this.
    "stream-pools.not-supported" POOLS [cudaMallocAsync, cudaMemPoolCreate] (NoPools) |c, stream| {
        c.gives("cudaMallocAsync", c.malloc_in_order(BYTES, &stream), NOT_SUPPORTED);
        c.gives("cudaMemPoolCreate", c.try_pool(1, 0), NOT_SUPPORTED);
    }
}
