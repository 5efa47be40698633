//! Host accesses while kernels run, and attaching memory to streams.

use super::*;

cases! {
    /// With concurrent managed access the host may access managed memory while a kernel runs.
    "host_access.while-a-kernel-runs" GUIDE_MANAGED [cudaMallocManaged] (Concurrent) |c, stream| {
        let memory = c.managed(2 * MIB);
        stream.prefetch(&memory, DEVICE).sync();
        let gate = c.gate(&stream);
        memory.fill_all(6);
        c.is("contents", memory.value_all(), 6);
        gate.open();
    }
    /// With concurrent managed access a kernel sees host writes that were made before it begins.
    "host_access.while-work-waits" GUIDE_MANAGED [cudaMallocManaged] (Concurrent) |c, stream| {
        let memory = c.managed(2 * MIB);
        let gate = c.gate(&stream);
        stream.add(&memory, 1);
        memory.fill_all(6);
        gate.open();
        stream.after("contents", &memory, 7);
    }
    /// Without concurrent managed access the host may access managed memory after it has synchronized.
    "host_access.after-synchronizing" GUIDE_MANAGED [cudaDeviceSynchronize] (NoConcurrent) |c, stream| {
        let memory = c.managed(2 * MIB);
        for round in 0..3 {
            memory.fill_all(round);
            stream.add(&memory, 1);
            c.succeeds("cudaDeviceSynchronize", c.synchronize());
            c.is("contents", memory.value_all(), round + 1);
        }
    }
    /// Without concurrent managed access a host access to managed memory while a kernel runs is forbidden, and the simulator reports it.
    "host_access.during-a-kernel" GUIDE_MANAGED [cudaMallocManaged] (NoConcurrent, Simulator) misuse |c, stream| {
        let memory = c.managed(64 * KIB);
        let gate = c.gate(&stream);
        memory.read_pages();
        gate.open();
    }
    /// The host may access memory attached to the host, from the start or later, while kernels run that do not use it.
    "host_access.attached-to-host" GUIDE_MANAGED [cudaStreamAttachMemAsync, cudaMallocManaged] (Managed) |c| {
        let (from_start, later) =
            (c.managed_with(64 * KIB, sys::cudaMemAttachHost), c.managed(64 * KIB));
        let (own, other) = (c.stream(), c.stream());
        c.succeeds("cudaMemAttachHost", c.attach(&own, &later, sys::cudaMemAttachHost));
        own.sync();
        let gate = c.gate(&other);
        for (what, memory) in [("from the start", &from_start), ("later", &later)] {
            memory.fill_all(3);
            c.is(what, memory.value_all(), 3);
        }
        gate.open();
    }
    /// The host may access memory attached to one stream while kernels run in other streams.
    "host_access.attached-to-a-stream" GUIDE_MANAGED [cudaStreamAttachMemAsync] (Managed) |c, own, other| {
        let memory = c.managed(64 * KIB);
        c.succeeds("attach", c.attach(&own, &memory, sys::cudaMemAttachSingle));
        own.sync();
        let gate = c.gate(&other);
        memory.fill_all(3);
        own.add(&memory, 1).sync();
        c.is("contents", memory.value_all(), 4);
        gate.open();
    }
    /// Memory attached to the host can be attached globally again, and then kernels of any stream can use it.
    "host_access.attached-globally-again" STREAM [cudaStreamAttachMemAsync] (Managed) |c, stream| {
        let memory = c.managed_with(64 * KIB, sys::cudaMemAttachHost);
        memory.fill_all(3);
        c.succeeds("attach", c.attach(&stream, &memory, sys::cudaMemAttachGlobal));
        stream.sync();
        let other = c.stream();
        other.add(&memory, 1).sync();
        c.is("contents", memory.value_all(), 4);
    }
    /// Memory cannot be attached only to the legacy default stream.
    "host_access.attach-to-default" STREAM [cudaStreamAttachMemAsync] (Managed) |c| {
        let (memory, stream) = (c.managed(64 * KIB), c.stream_at(0));
        c.refuses("cudaMemAttachSingle", c.attach(&stream, &memory, sys::cudaMemAttachSingle));
    }
    /// Device memory cannot be attached.
    "host_access.attach-device-memory" STREAM [cudaStreamAttachMemAsync] (Managed) |c, stream| {
        let memory = c.device(64 * KIB);
        c.refuses("cudaMemAttachHost", c.attach(&stream, &memory, sys::cudaMemAttachHost));
    }
}
