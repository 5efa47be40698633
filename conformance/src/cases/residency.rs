//! Host and device see the same memory, at every location of its pages.

use super::prelude::*;

const CALLS: &[&str] = &["cudaMallocManaged", "cuLaunchKernel"];

pub(super) const CASES: &[Case] = cases! {
    "residency.kernel-sees-host" (kernel_sees_host):
        "A kernel sees host writes from before its launch.",
        sources::GUIDE_MANAGED, CALLS, needs(&[Need::Managed]);
    "residency.host-sees-kernel" (host_sees_kernel):
        "After it has synchronized, the host sees the writes of a kernel.",
        sources::GUIDE_MANAGED, CALLS, needs(&[Need::Managed]);
    "residency.in-turn" (in_turn):
        "Host and kernels write in turn, and each sees the writes of the other.",
        sources::GUIDE_MANAGED, CALLS, needs(&[Need::Managed]);
    "residency.parts" (parts):
        "Host and kernels write different parts, and all of it is kept.",
        sources::GUIDE_MANAGED, CALLS, needs(&[Need::Managed]);
    "residency.read-mostly-written" (read_mostly_written):
        "Either side may write read-mostly memory, and both sides see the writes.",
        sources::MEMORY, &["cudaMemAdvise", "cuLaunchKernel"], needs(&[Need::Concurrent]);
    "residency.advised" (advised):
        "Advice does not change the contents.",
        sources::MEMORY, &["cudaMemAdvise", "cuLaunchKernel"], needs(&[Need::Concurrent]);
    "residency.two-devices" (two_devices):
        "Kernels of two devices see each other's writes in managed memory.",
        sources::GUIDE_MANAGED, CALLS, needs(&[Need::Managed, Need::Devices(2)]);
};

fn kernel_sees_host(c: &Cuda<'_>) -> Verdict {
    let (memory, out, stream) = (c.managed(MIB)?, c.device_memory(MIB)?, c.stream()?);
    memory.fill_all(11);
    c.read(&memory, &out, &stream)?;
    c.ok("synchronize", stream.synchronize())?;
    c.is("what the kernel read", c.device_value(&out)?, 11)
}

fn host_sees_kernel(c: &Cuda<'_>) -> Verdict {
    let (memory, stream) = (c.managed(MIB)?, c.stream()?);
    memory.fill_all(11);
    c.add(&memory, 4, &stream)?;
    c.succeeds("cudaStreamSynchronize", stream.synchronize())?;
    c.is("what the host reads", memory.value_all()?, 15)
}

fn in_turn(c: &Cuda<'_>) -> Verdict {
    let (memory, stream) = (c.managed(256 * KIB)?, c.stream()?);
    memory.fill_all(0);
    for round in 0..8 {
        c.add(&memory, 1, &stream)?;
        c.ok("synchronize", stream.synchronize())?;
        let value = memory.value_all()?;
        if value != 3 * round + 1 {
            return fail(format!("round {round}: {value}"));
        }
        memory.fill_all(value + 2);
    }
    c.is("after 8 rounds", memory.value_all()?, 24)
}

fn parts(c: &Cuda<'_>) -> Verdict {
    let (memory, stream) = (c.managed(4 * MIB)?, c.stream()?);
    let (quarter, half) = (memory.len() / 4, memory.len() / 2);
    memory.fill_all(1);
    c.ok("launch", c.add_range(&memory, quarter, half, 1, &stream)?)?;
    c.ok("synchronize", stream.synchronize())?;
    memory.fill(half..half + 10, 7);
    c.is("before", memory.value(0..quarter)?, 1)?;
    c.is("the kernel's", memory.value(quarter..half)?, 2)?;
    c.is("the host's", memory.value(half..half + 10)?, 7)?;
    c.is(
        "the kernel's again",
        memory.value(half + 10..3 * quarter)?,
        2,
    )?;
    c.is("behind", memory.value(3 * quarter..memory.len())?, 1)
}

fn read_mostly_written(c: &Cuda<'_>) -> Verdict {
    let (memory, out, stream) = (c.managed(2 * MIB)?, c.device_memory(2 * MIB)?, c.stream()?);
    memory.fill_all(1);
    c.ok(
        "read-mostly",
        c.advise(&memory, advice::SET_READ_MOSTLY, DEVICE),
    )?;
    c.ok("prefetch", c.prefetch(&memory, DEVICE, &stream))?;
    c.add(&memory, 1, &stream)?;
    c.ok("synchronize", stream.synchronize())?;
    c.is("after a kernel", memory.value_all()?, 2)?;
    memory.fill_all(9);
    c.read(&memory, &out, &stream)?;
    c.ok("synchronize", stream.synchronize())?;
    c.is("after the host", c.device_value(&out)?, 9)
}

fn advised(c: &Cuda<'_>) -> Verdict {
    let (memory, stream) = (c.managed(2 * MIB)?, c.stream()?);
    memory.fill_all(0);
    let advices = [
        (advice::SET_PREFERRED, HOST),
        (advice::SET_ACCESSED_BY, DEVICE),
        (advice::SET_PREFERRED, DEVICE),
        (advice::SET_ACCESSED_BY, HOST),
        (advice::SET_READ_MOSTLY, DEVICE),
        (advice::UNSET_READ_MOSTLY, DEVICE),
        (advice::UNSET_PREFERRED, DEVICE),
        (advice::UNSET_ACCESSED_BY, DEVICE),
    ];
    for (round, (advice, place)) in (1..).zip(advices) {
        c.ok("advise", c.advise(&memory, advice, place))?;
        c.add(&memory, 1, &stream)?;
        c.ok("synchronize", stream.synchronize())?;
        c.is(
            &format!("after advice {advice}"),
            memory.value_all()?,
            round,
        )?;
    }
    Ok(())
}

fn two_devices(c: &Cuda<'_>) -> Verdict {
    let memory = c.managed(2 * MIB)?;
    memory.fill_all(0);
    for device in [0, 1, 0, 1] {
        c.ok("cudaSetDevice", c.set_device(device))?;
        let stream = c.stream()?;
        c.add(&memory, 1, &stream)?;
        c.ok("synchronize", stream.synchronize())?;
    }
    c.is("contents", memory.value_all()?, 4)
}
