//! Memset.

use super::*;

const BYTES: usize = 64 * KIB;

cases! {
    /// Every byte is set to the low byte of the value.
    "memset.low-byte" MEMORY [cudaMemset] |c| {
        let memory = c.device(BYTES);
        for (value, seen) in [(0, 0), (0x5a, 0x5a5a_5a5a), (0x1234, 0x3434_3434), (-1, u32::MAX)] {
            c.succeeds(format!("cudaMemset {value}"), c.memset(&memory, value, BYTES));
            c.is("contents", c.device_value(&memory), seen);
        }
    }
    /// Exactly the requested number of bytes is set, also for odd numbers.
    "memset.only-its-bytes" MEMORY [cudaMemset, cudaMemsetAsync] |c, stream| {
        let memory = c.device(4 * KIB);
        for bytes in [1, 3, 5, 1023, 4095] {
            ok(c.memset(&memory, 0, memory.bytes()));
            ok(c.synchronize());
            c.succeeds(format!("{bytes} bytes"), c.memset_async(&memory, 0xff, bytes, &stream));
            stream.sync();
            let set: Vec<bool> = c
                .contents(&memory)
                .iter()
                .flat_map(|word| word.to_le_bytes())
                .map(|byte| byte == 0xff)
                .collect();
            c.holds("these bytes", set[..bytes].iter().all(|set| *set));
            c.holds("no others", set[bytes..].iter().all(|set| !*set));
        }
    }
    /// A memset of 0 bytes is not an error, and sets nothing.
    "memset.zero-bytes" MEASURED [cudaMemset, cudaMemsetAsync] |c, stream| {
        let memory = c.device(BYTES);
        ok(c.memset(&memory, 7, BYTES));
        c.succeeds("cudaMemset", c.memset(&memory, 1, 0));
        c.succeeds("cudaMemsetAsync", c.memset_async(&memory, 1, 0, &stream));
        stream.after("contents", &memory, 0x0707_0707);
    }
    /// Managed memory is set at any location of its pages, and the host reads the new values.
    "memset.managed" MEMORY [cudaMemset, cudaMemsetAsync] (Managed) |c, stream| {
        let memory = c.managed(2 * MIB);
        c.succeeds("fresh pages", c.memset(&memory, 1, memory.bytes()));
        ok(c.synchronize());
        c.is("contents", memory.value_all(), 0x0101_0101);
        memory.fill_all(3);
        c.succeeds("pages on the host", c.memset_async(&memory, 2, MIB, &stream));
        stream.sync();
        c.is("the first half", memory.value(0..memory.len() / 2), 0x0202_0202);
        c.is("the second half", memory.value(memory.len() / 2..memory.len()), 3);
        stream.add(&memory, 0);
        c.succeeds("pages on the device", c.memset_async(&memory, 4, memory.bytes(), &stream));
        stream.after("contents", &memory, 0x0404_0404);
    }
    /// Pinned memory is set.
    "memset.pinned" API_SYNC [cudaMemset] (MappedHost) |c| {
        let memory = c.pinned(BYTES, 0).filled(0);
        c.succeeds("cudaMemset", c.memset(&memory, 9, BYTES));
        c.is("contents", memory.value_all(), 0x0909_0909);
    }
    /// Pageable memory is refused.
    "memset.pageable-refused" MEMORY [cudaMemsetAsync] (NoPageableAccess) |c, stream| {
        let mut own = vec![5; 1024];
        let refused = c.memset_async(own.as_mut_ptr(), 0, 4 * KIB, &stream);
        c.gives("cudaMemsetAsync", refused, INVALID_VALUE);
        stream.done("the stream");
        c.holds("nothing is set", own.iter().all(|value| *value == 5));
    }
    /// Setting device memory is asynchronous for the host, with either function.
    "memset.device-does-not-wait" API_SYNC [cudaMemset, cudaMemsetAsync] |c| {
        let (memory, legacy) = (c.device(BYTES), c.stream_at(LEGACY));
        let gate = c.gate(&legacy);
        c.succeeds("cudaMemset", c.memset(&memory, 1, BYTES));
        c.succeeds("cudaMemsetAsync", c.memset_async(&memory, 2, BYTES / 2, &legacy));
        gate.opens("the stream", legacy.query());
        ok(c.synchronize());
        let contents = c.contents(&memory);
        let (first, second) = contents.split_at(contents.len() / 2);
        c.holds("the first half", first.iter().all(|value| *value == 0x0202_0202));
        c.holds("the second half", second.iter().all(|value| *value == 0x0101_0101));
    }
    /// For pinned memory, the synchronous function returns when the memset is done.
    "memset.pinned-waits" API_SYNC [cudaMemset] (MappedHost) |c| {
        let (memory, legacy) = (c.pinned(BYTES, 0).filled(0), c.stream_at(LEGACY));
        let gate = c.gate(&legacy);
        gate.waits("cudaMemset", || c.memset(&memory, 8, BYTES));
        c.is("contents", memory.value_all(), 0x0808_0808);
    }
    /// The driver sets elements of 1, 2 and 4 bytes, in the order of a stream.
    "memset.wide" DRIVER_MEMORY [cuMemsetD8Async, cuMemsetD16Async, cuMemsetD32Async] |c, stream| {
        let memory = c.device(BYTES);
        c.succeeds("elements of 1 bytes", c.memset_8(&memory, 0x23, BYTES, &stream));
        stream.after("contents", &memory, 0x2323_2323);
        c.succeeds("elements of 2 bytes", c.memset_16(&memory, 0x1234, BYTES / 2, &stream));
        stream.after("contents", &memory, 0x1234_1234);
        c.succeeds("elements of 4 bytes", c.memset_32(&memory, 0xdead_beef, BYTES / 4, &stream));
        stream.after("contents", &memory, 0xdead_beef);
        c.succeeds("two in the middle", c.memset_32(memory.at() + 4, 1, 2, &stream));
        stream.sync();
        c.is("contents", c.contents(&memory)[..4].to_vec(), vec![0xdead_beef, 1, 1, 0xdead_beef]);
    }
    /// The address must be a multiple of the element's size.
    "memset.wide-misaligned" DRIVER_MEMORY [cuMemsetD16Async, cuMemsetD32Async] |c, stream| {
        let memory = c.device(BYTES).zeroed();
        c.refuses("2 bytes at 1", c.memset_16(memory.at() + 1, u16::MAX, 4, &stream));
        c.refuses("4 bytes at 1", c.memset_32(memory.at() + 1, u32::MAX, 4, &stream));
        c.refuses("4 bytes at 2", c.memset_32(memory.at() + 2, u32::MAX, 4, &stream));
        stream.after("contents", &memory, 0);
    }
}
