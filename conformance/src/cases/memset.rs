//! Memset.

use super::prelude::*;

const BYTES: usize = 64 * KIB;

pub(super) const CASES: &[Case] = cases! {
    "memset.low-byte" (low_byte):
        "Every byte is set to the low byte of the value.",
        sources::MEMORY, &["cudaMemset"];
    "memset.only-its-bytes" (only_its_bytes):
        "Exactly the requested number of bytes is set, also for odd numbers.",
        sources::MEMORY, &["cudaMemset", "cudaMemsetAsync"];
    "memset.zero-bytes" (zero_bytes):
        "A memset of 0 bytes is not an error, and sets nothing.",
        sources::MEASURED, &["cudaMemset", "cudaMemsetAsync"];
    "memset.managed" (managed):
        "Managed memory is set at any location of its pages, and the host reads the new values.",
        sources::MEMORY, &["cudaMemset", "cudaMemsetAsync"], needs(&[Need::Managed]);
    "memset.pinned" (pinned):
        "Pinned memory is set.",
        sources::API_SYNC, &["cudaMemset"], needs(&[Need::MappedHost]);
    "memset.pageable-refused" (pageable_refused):
        "Pageable memory is refused.",
        sources::MEMORY, &["cudaMemsetAsync"], needs(&[Need::NoPageableAccess]);
    "memset.device-does-not-wait" (device_does_not_wait):
        "Setting device memory is asynchronous for the host, with either function.",
        sources::API_SYNC, &["cudaMemset", "cudaMemsetAsync"];
    "memset.pinned-waits" (pinned_waits):
        "For pinned memory, the synchronous function returns when the memset is done.",
        sources::API_SYNC, &["cudaMemset"], needs(&[Need::MappedHost]);
    "memset.wide" (wide):
        "The driver sets elements of 1, 2 and 4 bytes, in the order of a stream.",
        sources::DRIVER_MEMORY, &["cuMemsetD8Async", "cuMemsetD16Async", "cuMemsetD32Async"];
    "memset.wide-misaligned" (wide_misaligned):
        "The address must be a multiple of the element's size.",
        sources::DRIVER_MEMORY, &["cuMemsetD16Async", "cuMemsetD32Async"];
};

fn low_byte(c: &Cuda<'_>) -> Verdict {
    let memory = c.device_memory(BYTES)?;
    for (value, seen) in [
        (0, 0),
        (0x5a, 0x5a5a_5a5a),
        (0x1234, 0x3434_3434),
        (-1, u32::MAX),
    ] {
        c.succeeds(&format!("cudaMemset {value}"), c.set(&memory, value, BYTES))?;
        c.is("contents", c.device_value(&memory)?, seen)?;
    }
    Ok(())
}

fn only_its_bytes(c: &Cuda<'_>) -> Verdict {
    let (memory, stream) = (c.device_memory(4 * KIB)?, c.stream()?);
    for bytes in [1, 3, 5, 1023, 4095] {
        c.ok("cudaMemset", c.set(&memory, 0, memory.bytes()))?;
        c.ok("cudaDeviceSynchronize", c.synchronize())?;
        c.succeeds(
            &format!("{bytes} bytes"),
            c.set_async(&memory, 0xff, bytes, &stream),
        )?;
        c.ok("cudaStreamSynchronize", stream.synchronize())?;
        let set: Vec<bool> = c
            .contents(&memory)?
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .map(|byte| byte == 0xff)
            .collect();
        c.holds("these bytes", set[..bytes].iter().all(|set| *set))?;
        c.holds("no others", set[bytes..].iter().all(|set| !*set))?;
    }
    Ok(())
}

fn zero_bytes(c: &Cuda<'_>) -> Verdict {
    let (memory, stream) = (c.device_memory(BYTES)?, c.stream()?);
    c.ok("cudaMemset", c.set(&memory, 7, BYTES))?;
    c.succeeds("cudaMemset", c.set(&memory, 1, 0))?;
    c.succeeds("cudaMemsetAsync", c.set_async(&memory, 1, 0, &stream))?;
    c.ok("cudaStreamSynchronize", stream.synchronize())?;
    c.is("contents", c.device_value(&memory)?, 0x0707_0707)
}

fn managed(c: &Cuda<'_>) -> Verdict {
    let (memory, stream) = (c.managed(2 * MIB)?, c.stream()?);
    c.succeeds("fresh pages", c.set(&memory, 1, memory.bytes()))?;
    c.ok("cudaDeviceSynchronize", c.synchronize())?;
    c.is("contents", memory.value_all()?, 0x0101_0101)?;
    memory.fill_all(3);
    c.succeeds("pages on the host", c.set_async(&memory, 2, MIB, &stream))?;
    c.ok("cudaStreamSynchronize", stream.synchronize())?;
    c.is(
        "the first half",
        memory.value(0..memory.len() / 2)?,
        0x0202_0202,
    )?;
    c.is(
        "the second half",
        memory.value(memory.len() / 2..memory.len())?,
        3,
    )?;
    c.add(&memory, 0, &stream)?;
    c.succeeds(
        "pages on the device",
        c.set_async(&memory, 4, memory.bytes(), &stream),
    )?;
    c.ok("cudaStreamSynchronize", stream.synchronize())?;
    c.is("contents", memory.value_all()?, 0x0404_0404)
}

fn pinned(c: &Cuda<'_>) -> Verdict {
    let memory = c.pinned(BYTES, 0)?;
    memory.fill_all(0);
    c.succeeds("cudaMemset", c.set(&memory, 9, BYTES))?;
    c.is("contents", memory.value_all()?, 0x0909_0909)
}

fn pageable_refused(c: &Cuda<'_>) -> Verdict {
    let (mut own, stream) = (vec![5; 1024], c.stream()?);
    c.gives(
        "cudaMemsetAsync",
        c.set_host_async(&mut own, &stream),
        Code::INVALID_VALUE,
    )?;
    c.succeeds("the stream", stream.synchronize())?;
    c.holds("nothing is set", own.iter().all(|value| *value == 5))
}

fn device_does_not_wait(c: &Cuda<'_>) -> Verdict {
    let (memory, legacy) = (c.device_memory(BYTES)?, c.default_stream(LEGACY));
    let gate = c.gate(&legacy)?;
    c.succeeds("cudaMemset", c.set(&memory, 1, BYTES))?;
    c.succeeds(
        "cudaMemsetAsync",
        c.set_async(&memory, 2, BYTES / 2, &legacy),
    )?;
    c.gives("the stream", legacy.query(), Code::NOT_READY)?;
    gate.open()?;
    c.ok("cudaDeviceSynchronize", c.synchronize())?;
    let contents = c.contents(&memory)?;
    let (first, second) = contents.split_at(contents.len() / 2);
    c.holds(
        "the first half",
        first.iter().all(|value| *value == 0x0202_0202),
    )?;
    c.holds(
        "the second half",
        second.iter().all(|value| *value == 0x0101_0101),
    )
}

fn pinned_waits(c: &Cuda<'_>) -> Verdict {
    let (memory, legacy) = (c.pinned(BYTES, 0)?, c.default_stream(LEGACY));
    memory.fill_all(0);
    let gate = c.gate(&legacy)?;
    let (waited, code) = gate.across(|| c.set(&memory, 8, BYTES));
    c.succeeds("cudaMemset", code)?;
    c.holds("it waited", waited)?;
    c.is("contents", memory.value_all()?, 0x0808_0808)
}

fn wide(c: &Cuda<'_>) -> Verdict {
    let (memory, stream) = (c.device_memory(BYTES)?, c.stream()?);
    for (width, value, seen) in [
        (1, 0x1_23, 0x2323_2323),
        (2, 0x9_1234, 0x1234_1234),
        (4, 0xdead_beef, 0xdead_beef),
    ] {
        let code = c.set_wide_async((&memory, 0), width, value, BYTES / width, &stream)?;
        c.succeeds(&format!("elements of {width} bytes"), code)?;
        c.ok("cudaStreamSynchronize", stream.synchronize())?;
        c.is("contents", c.device_value(&memory)?, seen)?;
    }
    let code = c.set_wide_async((&memory, 4), 4, 1, 2, &stream)?;
    c.succeeds("two in the middle", code)?;
    c.ok("cudaStreamSynchronize", stream.synchronize())?;
    c.is(
        "contents",
        c.contents(&memory)?[..4].to_vec(),
        vec![0xdead_beef, 1, 1, 0xdead_beef],
    )
}

fn wide_misaligned(c: &Cuda<'_>) -> Verdict {
    let (memory, stream) = (c.device_memory(BYTES)?, c.stream()?);
    c.ok("cudaMemset", c.set(&memory, 0, BYTES))?;
    c.ok("cudaDeviceSynchronize", c.synchronize())?;
    for (width, offset) in [(2, 1), (4, 1), (4, 2)] {
        let code = c.set_wide_async((&memory, offset), width, u32::MAX, 4, &stream)?;
        c.refuses(&format!("{width} bytes at {offset}"), code)?;
    }
    c.ok("cudaStreamSynchronize", stream.synchronize())?;
    c.is("contents", c.device_value(&memory)?, 0)
}
