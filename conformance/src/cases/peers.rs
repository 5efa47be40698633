//! Cases with access to the memory of another device.

use super::prelude::*;
use super::several_devices::{BYTES, on};

const PEERS: &[Need] = &[Need::Devices(2), Need::Peers];

pub(super) const CASES: &[Case] = cases! {
    "several-devices.peer-access" (peer_access):
        "Peer access can be enabled once and disabled once, but not for the device itself.",
        sources::PEER, &["cudaDeviceEnablePeerAccess", "cudaDeviceDisablePeerAccess"], needs(PEERS);
    "several-devices.peer-kernel" (peer_kernel):
        "With peer access a kernel uses the other device's memory in place.",
        sources::GUIDE_DEVICES, &["cudaDeviceEnablePeerAccess", "cuLaunchKernel"], needs(PEERS);
    "several-devices.can-access-peer" (can_access_peer):
        "A device is not its own peer, and a device that does not exist is refused.",
        sources::PEER, &["cudaDeviceCanAccessPeer"];
    "several-devices.peer-attributes" (peer_attributes):
        "The attributes of a pair agree with the access; a device and itself are no pair.",
        sources::PEER, &["cudaDeviceGetP2PAttribute"], needs(PEERS);
    "several-devices.pool-access" (pool_access):
        "With access to a pool, a kernel of another device can use its memory.",
        sources::POOLS, &["cudaMemPoolSetAccess", "cudaMallocFromPoolAsync"], needs(&[Need::Devices(2),
            Need::Peers, Need::Pools]);
};

fn peer_access(c: &Cuda<'_>) -> Verdict {
    c.succeeds("enabled", c.enable_peer(1, 0))?;
    let again = c.enable_peer(1, 0);
    let disabled = c.disable_peer(1);
    c.gives("enabled again", again, Code::PEER_ALREADY_ENABLED)?;
    c.succeeds("disabled", disabled)?;
    c.gives("disabled again", c.disable_peer(1), Code::PEER_NOT_ENABLED)?;
    c.gives(
        "flags that do not exist",
        c.enable_peer(1, 1),
        Code::INVALID_VALUE,
    )?;
    c.gives("itself", c.enable_peer(0, 0), Code::PEER_UNSUPPORTED)?;
    c.gives(
        "a device that does not exist",
        c.enable_peer(64, 0),
        Code::INVALID_DEVICE,
    )
}

fn peer_kernel(c: &Cuda<'_>) -> Verdict {
    let (there, stream) = (on(c, 1, || c.device_memory(BYTES))?, c.stream()?);
    on(c, 1, || {
        c.ok("cudaMemset", c.set(&there, 0, BYTES))?;
        c.ok("cudaDeviceSynchronize", c.synchronize())
    })?;
    c.ok("cudaDeviceEnablePeerAccess", c.enable_peer(1, 0))?;
    let launched = c.add_range(&there, 0, there.len(), 9, &stream);
    let end = stream.synchronize();
    c.ok("cudaDeviceDisablePeerAccess", c.disable_peer(1))?;
    c.succeeds("cuLaunchKernel", launched?)?;
    c.succeeds("cudaStreamSynchronize", end)?;
    c.is("contents", c.device_value(&there)?, 9)
}

fn can_access_peer(c: &Cuda<'_>) -> Verdict {
    let (code, can) = c.can_access_peer(0, 0);
    c.succeeds("itself", code)?;
    c.is("its own peer", can, 0)?;
    c.gives(
        "a peer that does not exist",
        c.can_access_peer(0, 64).0,
        Code::INVALID_DEVICE,
    )?;
    c.gives(
        "a device that does not exist",
        c.can_access_peer(64, 0).0,
        Code::INVALID_DEVICE,
    )
}

fn peer_attributes(c: &Cuda<'_>) -> Verdict {
    let value = |attribute| {
        let (code, value) = c.peer_attribute(attribute, (0, 1))?;
        c.succeeds("cudaDeviceGetP2PAttribute", code)?;
        Ok(value)
    };
    c.is("access is supported", value(2)?, 1)?;
    let is_flag = (0..=1).contains(&value(3)?);
    c.holds("native atomics are a flag", is_flag)?;
    for (what, attribute, to, expected) in [
        ("itself", 2, 0, Code::INVALID_DEVICE),
        ("a device that does not exist", 2, 64, Code::INVALID_DEVICE),
        (
            "an attribute that does not exist",
            99,
            1,
            Code::INVALID_VALUE,
        ),
    ] {
        c.gives(what, c.peer_attribute(attribute, (0, to))?.0, expected)?;
    }
    Ok(())
}

fn pool_access(c: &Cuda<'_>) -> Verdict {
    let (pool, stream) = (c.pool()?, c.stream()?);
    c.succeeds("cudaMemPoolSetAccess", pool.set_access(1, true))?;
    let memory = c.malloc_from_pool(&pool, BYTES, &stream, false)?;
    c.ok("cudaMemsetAsync", c.set_async(&memory, 0, BYTES, &stream))?;
    c.ok("cudaStreamSynchronize", stream.synchronize())?;
    on(c, 1, || {
        let other = c.stream()?;
        c.add(&memory, 3, &other)?;
        c.succeeds("the other device's kernel", other.synchronize())
    })?;
    c.is("contents", c.device_value(&memory)?, 3)?;
    c.ok("cudaFreeAsync", memory.free())?;
    c.ok("cudaStreamSynchronize", stream.synchronize())
}
