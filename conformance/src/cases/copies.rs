//! Explicit copies. CUDA does not define copies with overlapping ends, or with a kind that contradicts the ends: no case does
//! that.

use super::*;

const BYTES: usize = 64 * KIB;

cases! {
    /// Copies of the default kind go between device, pinned and managed memory in every pair.
    "copies.every-pair" MEMORY [cudaMemcpy] (Managed) |c| {
        let source = [c.device(BYTES), c.pinned(BYTES, 0), c.managed(BYTES)];
        let target = [c.device(BYTES), c.pinned(BYTES, 0), c.managed(BYTES)];
        let kinds = ["device", "pinned", "managed"];
        let mut value = 0;
        for (from_kind, from) in kinds.iter().zip(&source) {
            for (to_kind, to) in kinds.iter().zip(&target) {
                value += 1;
                ok(c.copy(from, &vec![value; BYTES / 4], DEFAULT));
                c.succeeds(format!("{from_kind} to {to_kind}"), c.copy(to, from, DEFAULT));
                c.is("contents", c.device_value(to), value);
            }
        }
    }
    /// Copies of the default kind accept pageable memory at either end.
    "copies.pageable" MEMORY [cudaMemcpy] (Managed) |c| {
        let own: Vec<u32> = (0..BYTES as u32 / 4).map(|index| index ^ 0x5a5a).collect();
        for (name, memory) in [
            ("device", c.device(BYTES)), ("pinned", c.pinned(BYTES, 0)),
            ("managed", c.managed(BYTES)),
        ] {
            c.succeeds(format!("into {name}"), c.copy(&memory, &own, DEFAULT));
            let mut out = vec![0; own.len()];
            c.succeeds(format!("out of {name}"), c.copy(&mut out, &memory, DEFAULT));
            c.holds("contents", out == own);
        }
        let mut out = vec![0; own.len()];
        c.succeeds("pageable to pageable", c.copy(&mut out, &own, DEFAULT));
        c.holds("contents", out == own);
    }
    /// A copy names its ends: host to host, host to device, device to host, device to device.
    "copies.kinds" TYPES [cudaMemcpy] |c| {
        let (first, second) = (c.device(BYTES), c.device(BYTES));
        let (own, pinned) = (vec![0x77; BYTES / 4], c.pinned(BYTES, 0));
        c.succeeds("host to host", c.copy(&pinned, &own, HOST_TO_HOST));
        c.succeeds("host to device", c.copy(&first, &pinned, HOST_TO_DEVICE));
        c.succeeds("device to device", c.copy(&second, &first, DEVICE_TO_DEVICE));
        let mut out = vec![0; own.len()];
        c.succeeds("device to host", c.copy(&mut out, &second, DEVICE_TO_HOST));
        c.holds("contents", out == own);
    }
    /// At either end of a copy, the kind may name managed memory as host or as device memory.
    "copies.managed-is-either" GUIDE_MANAGED [cudaMemcpy] (Managed) |c| {
        let (from, to) = (c.managed(BYTES), c.managed(BYTES));
        for kind in [HOST_TO_HOST, HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE] {
            from.fill_all(kind + 1);
            c.succeeds(format!("kind {kind}"), c.copy(&to, &from, kind));
            ok(c.synchronize());
            c.is("contents", to.value_all(), kind + 1);
        }
    }
    /// A kind that does not exist is an invalid direction.
    "copies.unknown-kind" MEMORY [cudaMemcpy] |c| {
        let (from, to) = (c.pinned(BYTES, 0).filled(2), c.pinned(BYTES, 0).filled(1));
        for kind in [5, 1000] {
            c.gives(format!("kind {kind}"), c.copy(&to, &from, kind), INVALID_COPY_DIRECTION);
        }
        c.is("contents", to.value_all(), 1);
    }
    /// Pageable memory is refused if the kind names it as device memory.
    "copies.pageable-is-no-device" MEMORY [cudaMemcpy] (NoPageableAccess) |c| {
        let (own, mut out) = (vec![1; 1024], vec![2; 1024]);
        for kind in [HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE] {
            c.gives(format!("kind {kind}"), c.copy(&mut out, &own, kind), INVALID_VALUE);
        }
        c.holds("nothing was copied", out.iter().all(|value| *value == 2));
    }
    /// A copy of 0 bytes is not an error for any addresses, and writes nothing.
    "copies.zero-bytes" MEASURED [cudaMemcpy, cudaMemcpyAsync] |c, stream| {
        let (memory, pinned) = (c.device(BYTES), c.pinned(BYTES, 0).filled(3));
        let (device, host) = (memory.at(), pinned.at());
        for (name, to, from, kind) in [
            ("host to device", device, host, HOST_TO_DEVICE),
            ("device to host", host, device, DEVICE_TO_HOST),
            ("default", host, device, DEFAULT),
            ("null", 0, 0, DEFAULT),
        ] {
            c.succeeds(name, c.memcpy(to, from, 0, kind));
        }
        let none: [u32; 0] = [];
        c.succeeds("asynchronous", c.copy_async(&memory, &none[..], DEFAULT, &stream));
        stream.after("contents", &pinned, 3);
    }
    /// A copy can go from one part of an allocation to another part that does not overlap it.
    "copies.within-one-allocation" MEMORY [cudaMemcpy] (Managed) |c| {
        for (name, memory) in [("device", c.device(BYTES)), ("managed", c.managed(BYTES))] {
            ok(c.memset(&memory, 0x11, BYTES));
            ok(c.memset(&memory, 0x22, BYTES / 2));
            let middle = memory.at() + BYTES / 2;
            c.succeeds(name, c.copy(middle..middle + BYTES / 2, memory.at()..middle, DEFAULT));
            c.is("contents", c.device_value(&memory), 0x2222_2222);
        }
    }
    /// A copy of many MiB from pageable memory, larger than any staging buffer, arrives completely.
    "copies.large" API_SYNC [cudaMemcpy] |c| {
        let own: Vec<u32> =
            (0..(24 * MIB / 4) as u32).map(|index| index.wrapping_mul(2_654_435_761)).collect();
        let memory = c.device(24 * MIB);
        c.succeeds("in", c.copy(&memory, &own, HOST_TO_DEVICE));
        c.holds("contents", c.contents(&memory) == own);
    }
    /// A copy from managed memory reads the results of earlier kernels, and later kernels read the result of a copy.
    "copies.managed-after-kernel" GUIDE_MANAGED [cudaMemcpyAsync, cuLaunchKernel] (Managed) |c, stream| {
        let (memory, other) = (c.managed(2 * MIB).filled(1), c.managed(2 * MIB));
        let out = c.pinned(2 * MIB, 0);
        stream.add(&memory, 1);
        c.succeeds("managed to managed", c.copy_async(&other, &memory, DEFAULT, &stream));
        stream.add(&other, 5);
        c.succeeds("managed to pinned", c.copy_async(&out, &other, DEFAULT, &stream));
        stream.ends("read back", &out, 7);
        c.is("in the managed memory", other.value_all(), 7);
    }
    /// An asynchronous copy from pinned memory reads it when the stream reaches the copy.
    "copies.pinned-read-when-run" API_SYNC [cudaMemcpyAsync] |c, stream| {
        let (memory, from) = (c.device(BYTES), c.pinned(BYTES, 0).filled(1));
        let gate = c.gate(&stream);
        ok(c.copy_async(&memory, &from, HOST_TO_DEVICE, &stream));
        from.fill_all(2);
        gate.open();
        stream.done("cudaStreamSynchronize");
        c.is("contents", c.device_value(&memory), 2);
    }
    /// Pageable memory that an asynchronous copy reads may be overwritten when the call returns.
    "copies.pageable-read-when-called" API_SYNC [cudaMemcpyAsync] (NoPageableAccess) |c| {
        for bytes in [4 * KIB, 256 * KIB, 8 * MIB] {
            let (memory, stream) = (c.device(bytes), c.stream());
            let mut own = vec![1; bytes / 4];
            let code = c.copy_async(&memory, &own, HOST_TO_DEVICE, &stream);
            own.fill(2);
            let end = stream.synchronize();
            c.succeeds(format!("cudaMemcpyAsync of {bytes} bytes"), code);
            c.succeeds("cudaStreamSynchronize", end);
            c.is("contents", c.device_value(&memory), 1);
        }
    }
    /// An asynchronous copy from the device into pageable memory returns when it is done.
    "copies.pageable-written-when-returned" API_SYNC [cudaMemcpyAsync] (NoPageableAccess) |c, stream| {
        let memory = c.device(BYTES).zeroed();
        let mut out = vec![0; BYTES / 4];
        let gate = c.gate(&stream);
        stream.add(&memory, 4);
        let (waited, code) =
            gate.across(|| c.copy_async(&mut out, &memory, DEVICE_TO_HOST, &stream));
        let early = out.clone();
        stream.sync();
        c.succeeds("cudaMemcpyAsync", code);
        c.holds("it waited for the stream", waited);
        c.holds("contents when it returned", early.iter().all(|value| *value == 4));
    }
    /// A synchronous copy to pinned memory returns when it is done.
    "copies.to-host-waits" API_SYNC [cudaMemcpy] |c| {
        let (memory, out, legacy) = (c.device(BYTES), c.pinned(BYTES, 0), c.stream_at(LEGACY));
        out.fill_all(0);
        ok(c.memset(&memory, 0, BYTES));
        let gate = c.gate(&legacy);
        legacy.add(&memory, 6);
        gate.waits("cudaMemcpy", || c.copy(&out, &memory, DEVICE_TO_HOST));
        c.is("contents", out.value_all(), 6);
    }
}
