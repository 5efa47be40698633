//! Host accesses while kernels run, and attaching memory to streams.

use super::prelude::*;
use cuda_um_sys as sys;

const ATTACH: &[&str] = &["cudaStreamAttachMemAsync"];

pub(super) const CASES: &[Case] = cases! {
    "host_access.while-a-kernel-runs" (while_a_kernel_runs):
        "With concurrent managed access the host may access managed memory while a kernel runs.",
        sources::GUIDE_MANAGED, &["cudaMallocManaged"], needs(&[Need::Concurrent]);
    "host_access.while-work-waits" (while_work_waits):
        "With concurrent managed access a kernel sees host writes that were made before it begins.",
        sources::GUIDE_MANAGED, &["cudaMallocManaged"], needs(&[Need::Concurrent]);
    "host_access.after-synchronizing" (after_synchronizing):
        "Without concurrent managed access the host may access managed memory after it has synchronized.",
        sources::GUIDE_MANAGED, &["cudaDeviceSynchronize"], needs(&[Need::NoConcurrent]);
    "host_access.during-a-kernel" (during_a_kernel):
        "Without concurrent managed access a host access to managed memory while a kernel runs is forbidden, and the simulator reports it.",
        sources::GUIDE_MANAGED, &["cudaMallocManaged"], needs(&[Need::NoConcurrent, Need::Simulator]), misuse();
    "host_access.attached-to-host" (attached_to_host):
        "The host may access memory attached to the host, from the start or later, while kernels run that do not use it.",
        sources::GUIDE_MANAGED, &["cudaStreamAttachMemAsync", "cudaMallocManaged"], needs(&[Need::Managed]);
    "host_access.attached-to-a-stream" (attached_to_a_stream):
        "The host may access memory attached to one stream while kernels run in other streams.",
        sources::GUIDE_MANAGED, ATTACH, needs(&[Need::Managed]);
    "host_access.attached-globally-again" (attached_globally_again):
        "Memory attached to the host can be attached globally again, and then kernels of any stream can use it.",
        sources::STREAM, ATTACH, needs(&[Need::Managed]);
    "host_access.attach-to-default" (attach_to_default):
        "Memory cannot be attached only to the legacy default stream.",
        sources::STREAM, ATTACH, needs(&[Need::Managed]);
    "host_access.attach-device-memory" (attach_device_memory):
        "Device memory cannot be attached.",
        sources::STREAM, ATTACH, needs(&[Need::Managed]);
};

fn while_a_kernel_runs(c: &Cuda<'_>) -> Verdict {
    let (memory, stream) = (c.managed(2 * MIB)?, c.stream()?);
    c.ok("prefetch", c.prefetch(&memory, DEVICE, &stream))?;
    c.ok("synchronize", stream.synchronize())?;
    let gate = c.gate(&stream)?;
    memory.fill_all(6);
    c.is("contents", memory.value_all()?, 6)?;
    gate.open()
}

fn while_work_waits(c: &Cuda<'_>) -> Verdict {
    let (memory, stream) = (c.managed(2 * MIB)?, c.stream()?);
    let gate = c.gate(&stream)?;
    c.add(&memory, 1, &stream)?;
    memory.fill_all(6);
    gate.open()?;
    c.ok("synchronize", stream.synchronize())?;
    c.is("contents", memory.value_all()?, 7)
}

fn after_synchronizing(c: &Cuda<'_>) -> Verdict {
    let (memory, stream) = (c.managed(2 * MIB)?, c.stream()?);
    for round in 0..3 {
        memory.fill_all(round);
        c.add(&memory, 1, &stream)?;
        c.succeeds("cudaDeviceSynchronize", c.synchronize())?;
        c.is("contents", memory.value_all()?, round + 1)?;
    }
    Ok(())
}

fn during_a_kernel(c: &Cuda<'_>) -> Verdict {
    let (memory, stream) = (c.managed(64 * KIB)?, c.stream()?);
    let gate = c.gate(&stream)?;
    memory.read_pages();
    gate.open()
}

fn attached_to_host(c: &Cuda<'_>) -> Verdict {
    let (from_start, later) = (
        c.managed_with(64 * KIB, sys::cudaMemAttachHost)?,
        c.managed(64 * KIB)?,
    );
    let (own, other) = (c.stream()?, c.stream()?);
    c.succeeds(
        "cudaMemAttachHost",
        c.attach(&own, &later, sys::cudaMemAttachHost),
    )?;
    c.ok("synchronize", own.synchronize())?;
    let gate = c.gate(&other)?;
    for (what, memory) in [("from the start", &from_start), ("later", &later)] {
        memory.fill_all(3);
        c.is(what, memory.value_all()?, 3)?;
    }
    gate.open()
}

fn attached_to_a_stream(c: &Cuda<'_>) -> Verdict {
    let (memory, own, other) = (c.managed(64 * KIB)?, c.stream()?, c.stream()?);
    c.succeeds("attach", c.attach(&own, &memory, sys::cudaMemAttachSingle))?;
    c.ok("synchronize", own.synchronize())?;
    let gate = c.gate(&other)?;
    memory.fill_all(3);
    c.add(&memory, 1, &own)?;
    c.ok("synchronize", own.synchronize())?;
    c.is("contents", memory.value_all()?, 4)?;
    gate.open()
}

fn attached_globally_again(c: &Cuda<'_>) -> Verdict {
    let (memory, stream) = (
        c.managed_with(64 * KIB, sys::cudaMemAttachHost)?,
        c.stream()?,
    );
    memory.fill_all(3);
    c.succeeds(
        "attach",
        c.attach(&stream, &memory, sys::cudaMemAttachGlobal),
    )?;
    c.ok("synchronize", stream.synchronize())?;
    let other = c.stream()?;
    c.add(&memory, 1, &other)?;
    c.ok("synchronize", other.synchronize())?;
    c.is("contents", memory.value_all()?, 4)
}

fn attach_to_default(c: &Cuda<'_>) -> Verdict {
    let memory = c.managed(64 * KIB)?;
    let stream = c.default_stream(0);
    c.refuses(
        "cudaMemAttachSingle",
        c.attach(&stream, &memory, sys::cudaMemAttachSingle),
    )
}

fn attach_device_memory(c: &Cuda<'_>) -> Verdict {
    let (memory, stream) = (c.device_memory(64 * KIB)?, c.stream()?);
    c.refuses(
        "cudaMemAttachHost",
        c.attach(&stream, &memory, sys::cudaMemAttachHost),
    )
}
