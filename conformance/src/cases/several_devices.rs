//! Several devices, and access to the memory of another device.

use super::*;

const BYTES: usize = 256 * KIB;

cases! {
    /// Copies of the default kind work between the memory of two devices, with and without peer access.
    "several-devices.copies" GUIDE_DEVICES [cudaMemcpy, cudaMemcpyAsync] (Devices(2)) |c| {
        let (here, there) = (c.device(BYTES), c.on(1, || c.device(BYTES)));
        ok(c.memset(&here, 3, BYTES));
        c.succeeds("to the other", c.copy(&there, &here, DEFAULT));
        ok(c.synchronize());
        c.is("contents there", c.device_value(&there), 0x0303_0303);
        let stream = c.stream();
        ok(c.memset(&here, 0, BYTES));
        ok(c.synchronize());
        c.succeeds("and back", c.copy_async(&here, &there, DEFAULT, &stream));
        stream.after("contents here", &here, 0x0303_0303);
    }
    /// Peer copies work between the memory of two devices, and within one device; a device that does not exist is refused.
    "several-devices.peer-copies" MEMORY [cudaMemcpyPeer, cudaMemcpyPeerAsync] (Devices(2)) |c, stream| {
        let (here, there) = (c.device(BYTES), c.on(1, || c.device(BYTES)));
        let other = c.device(BYTES);
        ok(c.memset(&here, 4, BYTES));
        c.succeeds("cudaMemcpyPeer", c.memcpy_peer(&there, 1, &here, 0, BYTES));
        ok(c.synchronize());
        let copied = c.memcpy_peer_async(&other, 0, &there, 1, BYTES, &stream);
        c.succeeds("cudaMemcpyPeerAsync", copied);
        c.succeeds("within one device", c.memcpy_peer_async(&here, 0, &other, 0, BYTES, &stream));
        stream.ends("contents", &other, 0x0404_0404);
        let refused = c.memcpy_peer_async(&there, 64, &here, 0, BYTES, &stream);
        c.gives("a device that does not exist", refused, INVALID_DEVICE);
    }
    /// A copy and a memset work on a stream of a device that is not current.
    "several-devices.copy-on-another-devices-stream" GUIDE_DEVICES [cudaMemcpyAsync] (Devices(2)) |c| {
        let (here, out) = (c.device(BYTES), c.pinned(BYTES, sys::cudaHostAllocPortable));
        let (there, stream) = c.on(1, || (c.device(BYTES), c.stream()));
        c.succeeds("cudaMemsetAsync", c.memset_async(&there, 6, BYTES, &stream));
        c.succeeds("to this device", c.copy_async(&here, &there, DEFAULT, &stream));
        c.succeeds("to the host", c.copy_async(&out, &here, DEFAULT, &stream));
        stream.ends("contents", &out, 0x0606_0606);
    }
    /// A kernel of one device is refused on a stream of another.
    "several-devices.launch-on-another-devices-stream" GUIDE_DEVICES [cuLaunchKernel] (Devices(2)) |c| {
        let (memory, stream) = (c.device(BYTES).zeroed(), c.on(1, || c.stream()));
        c.refuses("cuLaunchKernel", c.add_range(&memory, 0, memory.len(), 1, &stream));
        stream.done("the stream");
        c.is("nothing ran", c.device_value(&memory), 0);
    }
    /// An event is not recorded on a stream of another device.
    "several-devices.record-on-another-devices-stream" GUIDE_DEVICES [cudaEventRecord] (Devices(2)) |c| {
        let (event, stream) = (c.event(0), c.on(1, || c.stream()));
        c.gives("cudaEventRecord", event.record(&stream), INVALID_HANDLE);
        c.succeeds("the event", event.query());
    }
    /// The time between events of different devices cannot be queried.
    "several-devices.elapsed-across" GUIDE_DEVICES [cudaEventElapsedTime] (Devices(2)) |c, stream| {
        let here = c.event(0);
        let (there, other) = c.on(1, || (c.event(0), c.stream()));
        stream.record(&here);
        other.record(&there);
        here.sync();
        there.sync();
        c.gives("cudaEventElapsedTime", c.event_elapsed(&here, &there), INVALID_HANDLE);
    }
    /// A stream can wait for an event of another device, and an event can be queried and waited for with any current device.
    "several-devices.wait-across" GUIDE_DEVICES [cudaStreamWaitEvent, cudaEventQuery, cudaEventSynchronize] (Devices(2)) |c, waiting| {
        let seen = c.pinned(4 * KIB, sys::cudaHostAllocPortable).filled(0);
        let (event, held) = c.on(1, || (c.mark(), c.stream()));
        let gate = c.on(1, || {
            let gate = c.gate(&held);
            held.record(&event);
            gate
        });
        c.succeeds("cudaStreamWaitEvent", waiting.wait(&event));
        waiting.add(&seen, 1);
        c.gives("cudaEventQuery", event.query(), NOT_READY);
        waiting.pending("the waiting stream");
        gate.release();
        c.succeeds("cudaEventSynchronize", event.synchronize());
        waiting.ends("the work", &seen, 1);
    }
    /// Each device has its own legacy default stream, which does not wait for that of another device.
    "several-devices.default-streams" GUIDE_DEVICES [cudaStreamSynchronize, cudaStreamQuery] (Devices(2)) |c| {
        let seen = c.pinned(4 * KIB, sys::cudaHostAllocPortable).filled(0);
        let legacy = c.stream_at(LEGACY);
        let gate = c.gate(&legacy);
        c.on(1, || {
            legacy.add(&seen, 1);
            c.succeeds("the other device's, synchronized", legacy.synchronize())
        });
        c.is("its work", seen.value_all(), 1);
        gate.opens("this device's", legacy.query());
    }
    /// cudaDeviceSynchronize waits only for the current device.
    "several-devices.synchronize-its-own" DEVICE [cudaDeviceSynchronize] (Devices(2)) |c, stream| {
        let gate = c.gate(&stream);
        c.on(1, || c.succeeds("the other device", c.synchronize()));
        stream.pending("this device's stream");
        gate.waits("this device", || c.synchronize());
    }
    /// Managed memory has one address for all devices, and each device sees the writes of the previous one.
    "several-devices.managed" GUIDE_MANAGED [cudaMallocManaged, cuLaunchKernel] (Devices(2), Managed) |c| {
        let (memory, devices) = (c.managed(2 * MIB).filled(0), c.machine.facts.devices as i32);
        for device in 0..devices {
            c.on(device, || _ = c.stream().add(&memory, 1 << device).sync());
            assert_eq!(memory.value_all(), (2 << device) - 1, "after device {device}");
        }
    }
    /// Peer access can be enabled once and disabled once, but not for the device itself.
    "several-devices.peer-access" PEER [cudaDeviceEnablePeerAccess, cudaDeviceDisablePeerAccess] (Devices(2), Peers) |c| {
        c.succeeds("enabled", c.enable_peer(1, 0));
        let again = c.enable_peer(1, 0);
        let disabled = c.disable_peer(1);
        c.gives("enabled again", again, PEER_ALREADY_ENABLED);
        c.succeeds("disabled", disabled);
        c.gives("disabled again", c.disable_peer(1), PEER_NOT_ENABLED);
        c.gives("flags that do not exist", c.enable_peer(1, 1), INVALID_VALUE);
        c.gives("itself", c.enable_peer(0, 0), PEER_UNSUPPORTED);
        c.gives("a device that does not exist", c.enable_peer(64, 0), INVALID_DEVICE);
    }
    /// With peer access a kernel uses the other device's memory in place.
    "several-devices.peer-kernel" GUIDE_DEVICES [cudaDeviceEnablePeerAccess, cuLaunchKernel] (Devices(2), Peers) |c, stream| {
        let there = c.on(1, || c.device(BYTES).zeroed());
        ok(c.enable_peer(1, 0));
        let launched = c.add_range(&there, 0, there.len(), 9, &stream);
        let end = stream.synchronize();
        ok(c.disable_peer(1));
        c.succeeds("cuLaunchKernel", launched);
        c.succeeds("cudaStreamSynchronize", end);
        c.is("contents", c.device_value(&there), 9);
    }
    /// A device is not its own peer, and a device that does not exist is refused.
    "several-devices.can-access-peer" PEER [cudaDeviceCanAccessPeer] |c| {
        c.is("its own peer", c.succeeds("itself", c.can_access_peer(0, 0)), 0);
        c.gives("a peer that does not exist", c.can_access_peer(0, 64), INVALID_DEVICE);
        c.gives("a device that does not exist", c.can_access_peer(64, 0), INVALID_DEVICE);
    }
    /// The attributes of a pair agree with the access; a device and itself are no pair.
    "several-devices.peer-attributes" PEER [cudaDeviceGetP2PAttribute] (Devices(2), Peers) |c| {
        let name = "cudaDeviceGetP2PAttribute";
        c.is("access is supported", c.succeeds(name, c.peer_attribute(2, 0, 1)), 1);
        let atomics = c.succeeds(name, c.peer_attribute(3, 0, 1));
        c.holds("native atomics are a flag", (0..=1).contains(&atomics));
        for (what, attribute, to, expected) in [
            ("itself", 2, 0, INVALID_DEVICE),
            ("a device that does not exist", 2, 64, INVALID_DEVICE),
            ("an attribute that does not exist", 99, 1, INVALID_VALUE),
        ] {
            c.gives(what, c.peer_attribute(attribute, 0, to), expected);
        }
    }
    /// With access to a pool, a kernel of another device can use its memory.
    "several-devices.pool-access" POOLS [cudaMemPoolSetAccess, cudaMallocFromPoolAsync] (Devices(2), Peers, Pools) |c, stream| {
        let pool = c.pool();
        c.succeeds("cudaMemPoolSetAccess", pool.set_access(1, true));
        let memory = c.malloc_from(&pool, BYTES, &stream, false);
        stream.set(&memory, 0).sync();
        c.on(1, || {
            let other = c.stream();
            other.add(&memory, 3);
            c.succeeds("the other device's kernel", other.synchronize())
        });
        c.is("contents", c.device_value(&memory), 3);
        stream.free(memory).sync();
    }
    /// A copy needs access of the current device to memory of a pool; one between peers does not.
    "several-devices.pool-copy" POOLS [cudaMemcpyAsync, cudaMemcpyPeerAsync] (Devices(2), Peers, Pools) |c, stream| {
        let pool = c.pool();
        let memory = c.malloc_from(&pool, BYTES, &stream, false);
        stream.set(&memory, 1).sync();
        c.on(1, || {
            let (there, other) = (c.device(BYTES).zeroed(), c.stream());
            let refused = c.copy_async(&there, &memory, DEFAULT, &other);
            let between_peers = c.memcpy_peer_async(there.at(), 1, memory.at(), 0, BYTES, &other);
            ok(pool.set_access(1, true));
            let allowed = c.copy_async(&there, &memory, DEFAULT, &other);
            ok(other.synchronize());
            c.gives("without access", refused, INVALID_VALUE);
            c.succeeds("between peers", between_peers);
            c.succeeds("with access", allowed);
        });
        stream.free(memory).sync();
    }
}
