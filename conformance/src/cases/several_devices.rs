//! Cases with several devices.

use super::prelude::*;
use cuda_um_sys as sys;

pub(super) const BYTES: usize = 256 * KIB;
const TWO: &[Need] = &[Need::Devices(2)];

pub(super) const CASES: &[Case] = cases! {
    "several-devices.copies" (copies):
        "Copies of the default kind work between the memory of two devices, with and without peer access.",
        sources::GUIDE_DEVICES, &["cudaMemcpy", "cudaMemcpyAsync"], needs(TWO);
    "several-devices.peer-copies" (peer_copies):
        "Peer copies work between the memory of two devices, and within one device; a device that does not exist is refused.",
        sources::MEMORY, &["cudaMemcpyPeer", "cudaMemcpyPeerAsync"], needs(TWO);
    "several-devices.copy-on-another-devices-stream" (copy_on_another_devices_stream):
        "A copy and a memset work on a stream of a device that is not current.",
        sources::GUIDE_DEVICES, &["cudaMemcpyAsync"], needs(TWO);
    "several-devices.launch-on-another-devices-stream" (launch_on_another_devices_stream):
        "A kernel of one device is refused on a stream of another.",
        sources::GUIDE_DEVICES, &["cuLaunchKernel"], needs(TWO);
    "several-devices.record-on-another-devices-stream" (record_on_another_devices_stream):
        "An event is not recorded on a stream of another device.",
        sources::GUIDE_DEVICES, &["cudaEventRecord"], needs(TWO);
    "several-devices.elapsed-across" (elapsed_across):
        "The time between events of different devices cannot be queried.",
        sources::GUIDE_DEVICES, &["cudaEventElapsedTime"], needs(TWO);
    "several-devices.wait-across" (wait_across):
        "A stream can wait for an event of another device, and an event can be queried and waited for with any current device.",
        sources::GUIDE_DEVICES, &["cudaStreamWaitEvent", "cudaEventQuery", "cudaEventSynchronize"], needs(TWO);
    "several-devices.default-streams" (default_streams):
        "Each device has its own legacy default stream, which does not wait for that of another device.",
        sources::GUIDE_DEVICES, &["cudaStreamSynchronize", "cudaStreamQuery"], needs(TWO);
    "several-devices.synchronize-its-own" (synchronize_its_own):
        "cudaDeviceSynchronize waits only for the current device.",
        sources::DEVICE, &["cudaDeviceSynchronize"], needs(TWO);
    "several-devices.managed" (managed):
        "Managed memory has one address for all devices, and each device sees the writes of the previous one.",
        sources::GUIDE_MANAGED, &["cudaMallocManaged", "cuLaunchKernel"], needs(&[Need::Devices(2), Need::Managed]);
};

/// Runs a closure while this device is current; afterwards device 0 is current again.
pub(super) fn on<T>(
    c: &Cuda<'_>,
    device: i32,
    make: impl FnOnce() -> Result<T, Failure>,
) -> Result<T, Failure> {
    c.ok("cudaSetDevice", c.set_device(device))?;
    let made = make();
    c.ok("cudaSetDevice", c.set_device(0))?;
    made
}

fn copies(c: &Cuda<'_>) -> Verdict {
    let (here, there) = (
        c.device_memory(BYTES)?,
        on(c, 1, || c.device_memory(BYTES))?,
    );
    c.ok("cudaMemset", c.set(&here, 3, BYTES))?;
    c.succeeds("to the other", c.copy(&there, &here, kind::DEFAULT))?;
    c.ok("cudaDeviceSynchronize", c.synchronize())?;
    c.is("contents there", c.device_value(&there)?, 0x0303_0303)?;
    let stream = c.stream()?;
    c.ok("cudaMemset", c.set(&here, 0, BYTES))?;
    c.ok("cudaDeviceSynchronize", c.synchronize())?;
    c.succeeds(
        "and back",
        c.copy_async(&here, &there, kind::DEFAULT, &stream),
    )?;
    c.ok("cudaStreamSynchronize", stream.synchronize())?;
    c.is("contents here", c.device_value(&here)?, 0x0303_0303)
}

fn peer_copies(c: &Cuda<'_>) -> Verdict {
    let (here, there) = (
        c.device_memory(BYTES)?,
        on(c, 1, || c.device_memory(BYTES))?,
    );
    let (other, stream) = (c.device_memory(BYTES)?, c.stream()?);
    c.ok("cudaMemset", c.set(&here, 4, BYTES))?;
    c.succeeds("cudaMemcpyPeer", c.copy_peer((&there, 1), (&here, 0)))?;
    c.ok("cudaDeviceSynchronize", c.synchronize())?;
    c.succeeds(
        "cudaMemcpyPeerAsync",
        c.copy_peer_async((&other, 0), (&there, 1), &stream),
    )?;
    c.succeeds(
        "within one device",
        c.copy_peer_async((&here, 0), (&other, 0), &stream),
    )?;
    c.succeeds("cudaStreamSynchronize", stream.synchronize())?;
    c.is("contents", c.device_value(&other)?, 0x0404_0404)?;
    let refused = c.copy_peer_async((&there, 64), (&here, 0), &stream);
    c.gives(
        "a device that does not exist",
        refused,
        Code::INVALID_DEVICE,
    )
}

fn copy_on_another_devices_stream(c: &Cuda<'_>) -> Verdict {
    let (here, out) = (
        c.device_memory(BYTES)?,
        c.pinned(BYTES, sys::cudaHostAllocPortable)?,
    );
    let (there, stream) = on(c, 1, || Ok((c.device_memory(BYTES)?, c.stream()?)))?;
    c.succeeds("cudaMemsetAsync", c.set_async(&there, 6, BYTES, &stream))?;
    c.succeeds(
        "to this device",
        c.copy_async(&here, &there, kind::DEFAULT, &stream),
    )?;
    c.succeeds(
        "to the host",
        c.copy_async(&out, &here, kind::DEFAULT, &stream),
    )?;
    c.succeeds("cudaStreamSynchronize", stream.synchronize())?;
    c.is("contents", out.value_all()?, 0x0606_0606)
}

fn launch_on_another_devices_stream(c: &Cuda<'_>) -> Verdict {
    let (memory, stream) = (c.device_memory(BYTES)?, on(c, 1, || c.stream())?);
    c.ok("cudaMemset", c.set(&memory, 0, BYTES))?;
    c.ok("cudaDeviceSynchronize", c.synchronize())?;
    c.refuses(
        "cuLaunchKernel",
        c.add_range(&memory, 0, memory.len(), 1, &stream)?,
    )?;
    c.succeeds("the stream", stream.synchronize())?;
    c.is("nothing ran", c.device_value(&memory)?, 0)
}

fn record_on_another_devices_stream(c: &Cuda<'_>) -> Verdict {
    let (event, stream) = (c.event(0)?, on(c, 1, || c.stream())?);
    c.gives(
        "cudaEventRecord",
        event.record(&stream),
        Code::INVALID_HANDLE,
    )?;
    c.succeeds("the event", event.query())
}

fn elapsed_across(c: &Cuda<'_>) -> Verdict {
    let (here, stream) = (c.event(0)?, c.stream()?);
    let (there, other) = on(c, 1, || Ok((c.event(0)?, c.stream()?)))?;
    c.ok("cudaEventRecord", here.record(&stream))?;
    c.ok("cudaEventRecord", there.record(&other))?;
    c.ok("cudaEventSynchronize", here.synchronize())?;
    c.ok("cudaEventSynchronize", there.synchronize())?;
    c.gives(
        "cudaEventElapsedTime",
        c.elapsed(&here, &there).0,
        Code::INVALID_HANDLE,
    )
}

fn wait_across(c: &Cuda<'_>) -> Verdict {
    let (seen, waiting) = (c.pinned(4 * KIB, sys::cudaHostAllocPortable)?, c.stream()?);
    let (event, held) = on(c, 1, || {
        Ok((c.event(sys::cudaEventDisableTiming)?, c.stream()?))
    })?;
    seen.fill_all(0);
    let gate = on(c, 1, || {
        let gate = c.gate(&held)?;
        c.ok("cudaEventRecord", event.record(&held))?;
        Ok(gate)
    })?;
    c.succeeds("cudaStreamWaitEvent", waiting.wait(&event))?;
    c.add(&seen, 1, &waiting)?;
    c.gives("cudaEventQuery", event.query(), Code::NOT_READY)?;
    c.gives("the waiting stream", waiting.query(), Code::NOT_READY)?;
    gate.release();
    c.succeeds("cudaEventSynchronize", event.synchronize())?;
    c.succeeds("cudaStreamSynchronize", waiting.synchronize())?;
    c.is("the work", seen.value_all()?, 1)
}

fn default_streams(c: &Cuda<'_>) -> Verdict {
    let (seen, legacy) = (
        c.pinned(4 * KIB, sys::cudaHostAllocPortable)?,
        c.default_stream(LEGACY),
    );
    seen.fill_all(0);
    let gate = c.gate(&legacy)?;
    on(c, 1, || {
        c.add(&seen, 1, &legacy)?;
        c.succeeds("the other device's, synchronized", legacy.synchronize())
    })?;
    c.is("its work", seen.value_all()?, 1)?;
    c.gives("this device's", legacy.query(), Code::NOT_READY)?;
    gate.open()
}

fn synchronize_its_own(c: &Cuda<'_>) -> Verdict {
    let stream = c.stream()?;
    let gate = c.gate(&stream)?;
    on(c, 1, || c.succeeds("the other device", c.synchronize()))?;
    c.gives("this device's stream", stream.query(), Code::NOT_READY)?;
    let (waited, code) = gate.across(|| c.synchronize());
    c.succeeds("this device", code)?;
    c.holds("it waited", waited)
}

fn managed(c: &Cuda<'_>) -> Verdict {
    let (memory, devices) = (c.managed(2 * MIB)?, c.machine.facts.devices as i32);
    memory.fill_all(0);
    for device in 0..devices {
        on(c, device, || {
            let stream = c.stream()?;
            c.add(&memory, 1 << device, &stream)?;
            c.ok("cudaStreamSynchronize", stream.synchronize())
        })?;
        let expected = (2 << device) - 1;
        if memory.value_all()? != expected {
            return fail(format!(
                "after device {device}: {}, expected {expected}",
                memory.value_all()?
            ));
        }
    }
    Ok(())
}
