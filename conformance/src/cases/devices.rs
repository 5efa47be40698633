//! Devices, their attributes, memory.

use super::prelude::*;
use cuda_um_sys::cudaDeviceAttr as Attr;

pub(super) const CASES: &[Case] = cases! {
    "devices.count" (count):
        "The number of devices can be queried, and each device has an ordinal below it.",
        sources::DEVICE, &["cudaGetDeviceCount", "cudaSetDevice", "cudaGetDevice"];
    "devices.unknown" (unknown):
        "An ordinal without a device is refused as invalid, and the current device does not change.",
        sources::DEVICE, &["cudaSetDevice", "cudaGetDevice"];
    "devices.current-is-the-threads" (current_is_the_threads):
        "Each thread has its own current device; a new thread begins with device 0.",
        sources::GUIDE_DEVICES, &["cudaGetDevice", "cudaSetDevice"], needs(&[Need::Devices(2)]);
    "devices.late-attribute" (late_attribute):
        "An attribute that is newer than the runtime is refused as an invalid value.",
        sources::DEVICE, &["cudaDeviceGetAttribute"], needs(&[Need::Before(12, 2)]);
    "devices.host-numa" (host_numa):
        "From 12.2 on, the host NUMA node that is nearest to the device can be queried.",
        sources::TYPES, &["cudaDeviceGetAttribute"], needs(&[Need::Since(12, 2)]);
    "devices.unknown-attribute" (unknown_attribute):
        "An attribute that does not exist is an invalid value, and a device that does not exist an invalid device.",
        sources::DEVICE, &["cudaDeviceGetAttribute"];
    "devices.name" (name):
        "The driver returns the name of a device, and refuses a device that does not exist.",
        sources::DRIVER_DEVICE, &["cuDeviceGet", "cuDeviceGetName"];
    "devices.memory-info" (memory_info):
        "Free memory is at most the total; an allocation reduces it by its size, and a free restores it.",
        sources::MEMORY, &["cudaMemGetInfo", "cudaMalloc", "cudaFree"];
    "devices.synchronize" (synchronize):
        "Synchronizing the device waits for all of its streams.",
        sources::DEVICE, &["cudaDeviceSynchronize"];
};

fn count(c: &Cuda<'_>) -> Verdict {
    let (code, count) = c.device_count();
    c.succeeds("cudaGetDeviceCount", code)?;
    c.holds("at least one", count > 0)?;
    for device in (0..count).rev() {
        c.ok("cudaSetDevice", c.set_device(device))?;
        if c.current_device()? != device {
            return fail(format!("device {device} did not become current"));
        }
    }
    Ok(())
}

fn unknown(c: &Cuda<'_>) -> Verdict {
    for device in [-1, 64] {
        c.gives(
            &format!("cudaSetDevice({device})"),
            c.set_device(device),
            Code::INVALID_DEVICE,
        )?;
    }
    c.is("still current", c.current_device()?, 0)
}

fn current_is_the_threads(c: &Cuda<'_>) -> Verdict {
    c.ok("cudaSetDevice", c.set_device(1))?;
    let machine = c.machine;
    let there = std::thread::scope(|scope| {
        let thread = scope.spawn(|| Cuda::new(machine).current_device());
        thread
            .join()
            .map_err(|_| Failure("the thread panicked".to_owned()))
    })??;
    c.is("in a new thread", there, 0)?;
    c.is("in this thread", c.current_device()?, 1)
}

fn late_attribute(c: &Cuda<'_>) -> Verdict {
    let (code, _) = c.try_attribute(Attr::cudaDevAttrHostNumaId.0, 0);
    c.gives("cudaDevAttrHostNumaId", code, Code::INVALID_VALUE)
}

fn host_numa(c: &Cuda<'_>) -> Verdict {
    let node = c.attribute(Attr::cudaDevAttrHostNumaId)?;
    c.holds("a node, or -1 for none", node >= -1)
}

fn unknown_attribute(c: &Cuda<'_>) -> Verdict {
    let (code, _) = c.try_attribute(99_999, 0);
    c.gives("attribute 99999", code, Code::INVALID_VALUE)?;
    for device in [-1, 64] {
        let (code, _) = c.try_attribute(Attr::cudaDevAttrManagedMemory.0, device);
        c.gives(&format!("device {device}"), code, Code::INVALID_DEVICE)?;
    }
    Ok(())
}

fn name(c: &Cuda<'_>) -> Verdict {
    let (code, _) = c.driver_device(0)?;
    c.succeeds("cuDeviceGet(0)", code)?;
    c.holds("a name", !c.device_name()?.is_empty())?;
    let (code, _) = c.driver_device(64)?;
    c.gives("cuDeviceGet(64)", code, Code::INVALID_DEVICE)
}

fn memory_info(c: &Cuda<'_>) -> Verdict {
    let (free, total) = c.memory_info()?;
    c.holds("free <= total", free <= total && total > 0)?;
    let memory = c.device_memory(32 * MIB)?;
    let (while_there, same_total) = c.memory_info()?;
    c.is("the total stays", same_total == total, true)?;
    c.holds("32 MiB are taken", while_there + 32 * MIB <= free)?;
    c.ok("cudaFree", memory.free())?;
    c.holds(
        "32 MiB are given back",
        c.memory_info()?.0 >= while_there + 32 * MIB,
    )
}

fn synchronize(c: &Cuda<'_>) -> Verdict {
    let seen = c.pinned(4 * KIB, 0)?;
    // Each kind of stream in turn has the work, so that none is ignored.
    for (what, stream) in [
        ("blocking", c.stream_with(0)?),
        ("non-blocking", c.stream()?),
        ("the legacy default stream", c.default_stream(0)),
        ("the thread's default stream", c.default_stream(PER_THREAD)),
    ] {
        seen.fill_all(0);
        let gate = c.gate(&stream)?;
        c.add(&seen, 1, &stream)?;
        let (waited, code) = gate.across(|| c.synchronize());
        let (done, value) = (stream.query(), seen.value_all());
        c.succeeds(&format!("cudaDeviceSynchronize, {what}"), code)?;
        c.holds(&format!("{what}: it waited"), waited)?;
        c.succeeds(&format!("{what}: cudaStreamQuery behind it"), done)?;
        c.is(&format!("{what}: the work"), value?, 1)?;
    }
    Ok(())
}
