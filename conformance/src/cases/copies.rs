//! Explicit copies. CUDA does not define copies with overlapping ends, or with a kind that contradicts the ends: no case does
//! that.

use super::prelude::*;

const BYTES: usize = 64 * KIB;

pub(super) const CASES: &[Case] = cases! {
    "copies.every-pair" (every_pair):
        "Copies of the default kind go between device, pinned and managed memory in every pair.",
        sources::MEMORY, &["cudaMemcpy"], needs(&[Need::Managed]);
    "copies.pageable" (pageable):
        "Copies of the default kind accept pageable memory at either end.",
        sources::MEMORY, &["cudaMemcpy"], needs(&[Need::Managed]);
    "copies.kinds" (kinds):
        "A copy names its ends: host to host, host to device, device to host, device to device.",
        sources::TYPES, &["cudaMemcpy"];
    "copies.managed-is-either" (managed_is_either):
        "At either end of a copy, the kind may name managed memory as host or as device memory.",
        sources::GUIDE_MANAGED, &["cudaMemcpy"], needs(&[Need::Managed]);
    "copies.unknown-kind" (unknown_kind):
        "A kind that does not exist is an invalid direction.",
        sources::MEMORY, &["cudaMemcpy"];
    "copies.pageable-is-no-device" (pageable_is_no_device):
        "Pageable memory is refused if the kind names it as device memory.",
        sources::MEMORY, &["cudaMemcpy"], needs(&[Need::NoPageableAccess]);
    "copies.zero-bytes" (zero_bytes):
        "A copy of 0 bytes is not an error for any addresses, and writes nothing.",
        sources::MEASURED, &["cudaMemcpy", "cudaMemcpyAsync"];
    "copies.within-one-allocation" (within_one_allocation):
        "A copy can go from one part of an allocation to another part that does not overlap it.",
        sources::MEMORY, &["cudaMemcpy"], needs(&[Need::Managed]);
    "copies.large" (large):
        "A copy of many MiB from pageable memory, larger than any staging buffer, arrives completely.",
        sources::API_SYNC, &["cudaMemcpy"];
    "copies.managed-after-kernel" (managed_after_kernel):
        "A copy from managed memory reads the results of earlier kernels, and later kernels read the result of a copy.",
        sources::GUIDE_MANAGED, &["cudaMemcpyAsync", "cuLaunchKernel"], needs(&[Need::Managed]);
    "copies.pinned-read-when-run" (pinned_read_when_run):
        "An asynchronous copy from pinned memory reads it when the stream reaches the copy.",
        sources::API_SYNC, &["cudaMemcpyAsync"];
    "copies.pageable-read-when-called" (pageable_read_when_called):
        "Pageable memory that an asynchronous copy reads may be overwritten when the call returns.",
        sources::API_SYNC, &["cudaMemcpyAsync"], needs(&[Need::NoPageableAccess]);
    "copies.pageable-written-when-returned" (pageable_written_when_returned):
        "An asynchronous copy from the device into pageable memory returns when it is done.",
        sources::API_SYNC, &["cudaMemcpyAsync"], needs(&[Need::NoPageableAccess]);
    "copies.to-host-waits" (to_host_waits):
        "A synchronous copy to pinned memory returns when it is done.",
        sources::API_SYNC, &["cudaMemcpy"];
};

fn every_pair(c: &Cuda<'_>) -> Verdict {
    let source = [
        c.device_memory(BYTES)?,
        c.pinned(BYTES, 0)?,
        c.managed(BYTES)?,
    ];
    let target = [
        c.device_memory(BYTES)?,
        c.pinned(BYTES, 0)?,
        c.managed(BYTES)?,
    ];
    let kinds = ["device", "pinned", "managed"];
    let mut value = 0;
    for (from_kind, from) in kinds.iter().zip(&source) {
        for (to_kind, to) in kinds.iter().zip(&target) {
            value += 1;
            c.ok(
                "in",
                c.copy_in(from, &vec![value; BYTES / 4], kind::DEFAULT),
            )?;
            c.succeeds(
                &format!("{from_kind} to {to_kind}"),
                c.copy(to, from, kind::DEFAULT),
            )?;
            c.is("contents", c.device_value(to)?, value)?;
        }
    }
    Ok(())
}

fn pageable(c: &Cuda<'_>) -> Verdict {
    let own: Vec<u32> = (0..BYTES as u32 / 4).map(|index| index ^ 0x5a5a).collect();
    for (name, memory) in [
        ("device", c.device_memory(BYTES)?),
        ("pinned", c.pinned(BYTES, 0)?),
        ("managed", c.managed(BYTES)?),
    ] {
        c.succeeds(
            &format!("into {name}"),
            c.copy_in(&memory, &own, kind::DEFAULT),
        )?;
        let mut out = vec![0; own.len()];
        c.succeeds(
            &format!("out of {name}"),
            c.copy_out(&mut out, &memory, kind::DEFAULT),
        )?;
        c.holds("contents", out == own)?;
    }
    let mut out = vec![0; own.len()];
    c.succeeds(
        "pageable to pageable",
        c.copy_pageable(&mut out, &own, kind::DEFAULT),
    )?;
    c.holds("contents", out == own)
}

fn kinds(c: &Cuda<'_>) -> Verdict {
    let (first, second) = (c.device_memory(BYTES)?, c.device_memory(BYTES)?);
    let (own, pinned) = (vec![0x77; BYTES / 4], c.pinned(BYTES, 0)?);
    c.succeeds("host to host", c.copy_in(&pinned, &own, kind::HOST_TO_HOST))?;
    c.succeeds(
        "host to device",
        c.copy(&first, &pinned, kind::HOST_TO_DEVICE),
    )?;
    c.succeeds(
        "device to device",
        c.copy(&second, &first, kind::DEVICE_TO_DEVICE),
    )?;
    let mut out = vec![0; own.len()];
    c.succeeds(
        "device to host",
        c.copy_out(&mut out, &second, kind::DEVICE_TO_HOST),
    )?;
    c.holds("contents", out == own)
}

fn managed_is_either(c: &Cuda<'_>) -> Verdict {
    let (from, to) = (c.managed(BYTES)?, c.managed(BYTES)?);
    for kind in [
        kind::HOST_TO_HOST,
        kind::HOST_TO_DEVICE,
        kind::DEVICE_TO_HOST,
        kind::DEVICE_TO_DEVICE,
    ] {
        from.fill_all(kind + 1);
        c.succeeds(&format!("kind {kind}"), c.copy(&to, &from, kind))?;
        c.ok("cudaDeviceSynchronize", c.synchronize())?;
        c.is("contents", to.value_all()?, kind + 1)?;
    }
    Ok(())
}

fn unknown_kind(c: &Cuda<'_>) -> Verdict {
    let (from, to) = (c.pinned(BYTES, 0)?, c.pinned(BYTES, 0)?);
    to.fill_all(1);
    from.fill_all(2);
    for kind in [5, 1000] {
        c.gives(
            &format!("kind {kind}"),
            c.copy(&to, &from, kind),
            Code::INVALID_COPY_DIRECTION,
        )?;
    }
    c.is("contents", to.value_all()?, 1)
}

fn pageable_is_no_device(c: &Cuda<'_>) -> Verdict {
    let (own, mut out) = (vec![1; 1024], vec![2; 1024]);
    for kind in [
        kind::HOST_TO_DEVICE,
        kind::DEVICE_TO_HOST,
        kind::DEVICE_TO_DEVICE,
    ] {
        c.gives(
            &format!("kind {kind}"),
            c.copy_pageable(&mut out, &own, kind),
            Code::INVALID_VALUE,
        )?;
    }
    c.holds("nothing was copied", out.iter().all(|value| *value == 2))
}

fn zero_bytes(c: &Cuda<'_>) -> Verdict {
    let (memory, pinned, stream) = (c.device_memory(BYTES)?, c.pinned(BYTES, 0)?, c.stream()?);
    pinned.fill_all(3);
    let (device, host) = (memory.address(), pinned.address());
    for (name, to, from, kind) in [
        ("host to device", device, host, kind::HOST_TO_DEVICE),
        ("device to host", host, device, kind::DEVICE_TO_HOST),
        ("default", host, device, kind::DEFAULT),
        ("null", 0, 0, kind::DEFAULT),
    ] {
        c.succeeds(name, c.copy_nothing(to, from, kind))?;
    }
    let none: [u32; 0] = [];
    c.succeeds(
        "asynchronous",
        c.copy_in_async(&memory, &none, kind::DEFAULT, &stream),
    )?;
    c.ok("cudaStreamSynchronize", stream.synchronize())?;
    c.is("contents", pinned.value_all()?, 3)
}

fn within_one_allocation(c: &Cuda<'_>) -> Verdict {
    for (name, memory) in [
        ("device", c.device_memory(BYTES)?),
        ("managed", c.managed(BYTES)?),
    ] {
        c.ok("cudaMemset", c.set(&memory, 0x11, BYTES))?;
        c.ok("cudaMemset", c.set(&memory, 0x22, BYTES / 2))?;
        c.succeeds(name, c.copy_first_half(&memory, kind::DEFAULT))?;
        c.is("contents", c.device_value(&memory)?, 0x2222_2222)?;
    }
    Ok(())
}

fn large(c: &Cuda<'_>) -> Verdict {
    let own: Vec<u32> = (0..(24 * MIB / 4) as u32)
        .map(|index| index.wrapping_mul(2_654_435_761))
        .collect();
    let memory = c.device_memory(24 * MIB)?;
    c.succeeds("in", c.copy_in(&memory, &own, kind::HOST_TO_DEVICE))?;
    c.holds("contents", c.contents(&memory)? == own)
}

fn managed_after_kernel(c: &Cuda<'_>) -> Verdict {
    let (memory, other) = (c.managed(2 * MIB)?, c.managed(2 * MIB)?);
    let (out, stream) = (c.pinned(2 * MIB, 0)?, c.stream()?);
    memory.fill_all(1);
    c.add(&memory, 1, &stream)?;
    c.succeeds(
        "managed to managed",
        c.copy_async(&other, &memory, kind::DEFAULT, &stream),
    )?;
    c.add(&other, 5, &stream)?;
    c.succeeds(
        "managed to pinned",
        c.copy_async(&out, &other, kind::DEFAULT, &stream),
    )?;
    c.succeeds("cudaStreamSynchronize", stream.synchronize())?;
    c.is("read back", out.value_all()?, 7)?;
    c.is("in the managed memory", other.value_all()?, 7)
}

fn pinned_read_when_run(c: &Cuda<'_>) -> Verdict {
    let (memory, from, stream) = (c.device_memory(BYTES)?, c.pinned(BYTES, 0)?, c.stream()?);
    from.fill_all(1);
    let gate = c.gate(&stream)?;
    c.ok(
        "cudaMemcpyAsync",
        c.copy_async(&memory, &from, kind::HOST_TO_DEVICE, &stream),
    )?;
    from.fill_all(2);
    gate.open()?;
    c.succeeds("cudaStreamSynchronize", stream.synchronize())?;
    c.is("contents", c.device_value(&memory)?, 2)
}

fn pageable_read_when_called(c: &Cuda<'_>) -> Verdict {
    for bytes in [4 * KIB, 256 * KIB, 8 * MIB] {
        let (memory, stream) = (c.device_memory(bytes)?, c.stream()?);
        let mut own = vec![1; bytes / 4];
        let code = c.copy_in_async(&memory, &own, kind::HOST_TO_DEVICE, &stream);
        own.fill(2);
        let end = stream.synchronize();
        c.succeeds(&format!("cudaMemcpyAsync of {bytes} bytes"), code)?;
        c.succeeds("cudaStreamSynchronize", end)?;
        c.is("contents", c.device_value(&memory)?, 1)?;
    }
    Ok(())
}

fn pageable_written_when_returned(c: &Cuda<'_>) -> Verdict {
    let (memory, stream) = (c.device_memory(BYTES)?, c.stream()?);
    let mut out = vec![0; BYTES / 4];
    c.ok("cudaMemset", c.set(&memory, 0, BYTES))?;
    c.ok("cudaDeviceSynchronize", c.synchronize())?;
    let gate = c.gate(&stream)?;
    c.add(&memory, 4, &stream)?;
    let (waited, code) =
        gate.across(|| c.copy_out_async(&mut out, &memory, kind::DEVICE_TO_HOST, &stream));
    let early = out.clone();
    c.ok("cudaStreamSynchronize", stream.synchronize())?;
    c.succeeds("cudaMemcpyAsync", code)?;
    c.holds("it waited for the stream", waited)?;
    c.holds(
        "contents when it returned",
        early.iter().all(|value| *value == 4),
    )
}

fn to_host_waits(c: &Cuda<'_>) -> Verdict {
    let (memory, out, legacy) = (
        c.device_memory(BYTES)?,
        c.pinned(BYTES, 0)?,
        c.default_stream(LEGACY),
    );
    out.fill_all(0);
    c.ok("cudaMemset", c.set(&memory, 0, BYTES))?;
    let gate = c.gate(&legacy)?;
    c.add(&memory, 6, &legacy)?;
    let (waited, code) = gate.across(|| c.copy(&out, &memory, kind::DEVICE_TO_HOST));
    c.succeeds("cudaMemcpy", code)?;
    c.holds("it waited", waited)?;
    c.is("contents", out.value_all()?, 6)
}
