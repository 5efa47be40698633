//! Cases with access to the memory of another device.

use super::several_devices::BYTES;
use super::*;

cases! {
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
        let can = c.succeeds("itself", c.can_access_peer(0, 0));
        c.is("its own peer", can, 0);
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
}
