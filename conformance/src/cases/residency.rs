//! Host and device see the same memory, at every location of its pages.

use super::*;

cases! {
    /// A kernel sees host writes from before its launch.
    "residency.kernel-sees-host" GUIDE_MANAGED [cudaMallocManaged, cuLaunchKernel] (Managed) |c, stream| {
        let (memory, out) = (c.managed(MIB).filled(11), c.device(MIB));
        stream.read(&memory, &out).after("what the kernel read", &out, 11);
    }
    /// After it has synchronized, the host sees the writes of a kernel.
    "residency.host-sees-kernel" GUIDE_MANAGED [cudaMallocManaged, cuLaunchKernel] (Managed) |c, stream| {
        let memory = c.managed(MIB).filled(11);
        stream.add(&memory, 4).ends("what the host reads", &memory, 15);
    }
    /// Host and kernels write in turn, and each sees the writes of the other.
    "residency.in-turn" GUIDE_MANAGED [cudaMallocManaged, cuLaunchKernel] (Managed) |c, stream| {
        let memory = c.managed(256 * KIB).filled(0);
        for round in 0..8 {
            stream.add(&memory, 1).sync();
            let value = memory.value_all();
            if value != 3 * round + 1 {
                panic!("round {round}: {value}");
            }
            memory.fill_all(value + 2);
        }
        c.is("after 8 rounds", memory.value_all(), 24);
    }
    /// Host and kernels write different parts, and all of it is kept.
    "residency.parts" GUIDE_MANAGED [cudaMallocManaged, cuLaunchKernel] (Managed) |c, stream| {
        let memory = c.managed(4 * MIB).filled(1);
        let (quarter, half) = (memory.len() / 4, memory.len() / 2);
        ok(c.add_range(&memory, quarter, half, 1, &stream));
        stream.sync();
        memory.fill(half..half + 10, 7);
        c.is("before", memory.value(0..quarter), 1);
        c.is("the kernel's", memory.value(quarter..half), 2);
        c.is("the host's", memory.value(half..half + 10), 7);
        c.is("the kernel's again", memory.value(half + 10..3 * quarter), 2);
        c.is("behind", memory.value(3 * quarter..memory.len()), 1);
    }
    /// Either side may write read-mostly memory, and both sides see the writes.
    "residency.read-mostly-written" MEMORY [cudaMemAdvise, cuLaunchKernel] (Concurrent) |c, stream| {
        let (memory, out) = (c.managed(2 * MIB).filled(1), c.device(2 * MIB));
        ok(c.advise(&memory, SET_READ_MOSTLY, DEVICE));
        stream.prefetch(&memory, DEVICE).add(&memory, 1).sync();
        c.is("after a kernel", memory.value_all(), 2);
        memory.fill_all(9);
        stream.read(&memory, &out).after("after the host", &out, 9);
    }
    /// Advice does not change the contents.
    "residency.advised" MEMORY [cudaMemAdvise, cuLaunchKernel] (Concurrent) |c, stream| {
        let memory = c.managed(2 * MIB).filled(0);
        let advices = [
            (SET_PREFERRED, HOST), (SET_ACCESSED_BY, DEVICE), (SET_PREFERRED, DEVICE),
            (SET_ACCESSED_BY, HOST), (SET_READ_MOSTLY, DEVICE), (UNSET_READ_MOSTLY, DEVICE),
            (UNSET_PREFERRED, DEVICE), (UNSET_ACCESSED_BY, DEVICE),
        ];
        for (round, (advice, place)) in (1..).zip(advices) {
            ok(c.advise(&memory, advice, place));
            stream.add(&memory, 1).sync();
            c.is(format!("after advice {advice}"), memory.value_all(), round);
        }
    }
    /// Kernels of two devices see each other's writes in managed memory.
    "residency.two-devices" GUIDE_MANAGED [cudaMallocManaged, cuLaunchKernel] (Managed, Devices(2)) |c| {
        let memory = c.managed(2 * MIB).filled(0);
        for device in [0, 1, 0, 1] {
            ok(c.set_device(device));
            let stream = c.stream();
            stream.add(&memory, 1).sync();
        }
        c.is("contents", memory.value_all(), 4);
    }
}
