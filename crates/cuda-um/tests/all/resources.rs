//! The same rules for every memory resource: contents, order, drops in use, limits.

use cuda_um::resource::{DeviceMemory, ManagedMemory, MemoryResource, PinnedMemory, SystemMemory};
use cuda_um::{Device, Error, MemoryKind, PinnedBuffer, Pool, PoolOptions, UnifiedBuffer};
use cuda_um_sim::{Builder, Fail, Gpu};
use cuda_um_sys::cudaError;
use cuda_um_testkit::{AnyBuffer, calls, each, fails, simulated, simulated_with, without_pools};

use Gpu::{Gh200, H200, Hmm, NoConcurrentAccess, Pascal};

fn resources(device: &Device) -> Vec<(&'static str, Box<dyn MemoryResource>)> {
    let options = PoolOptions::default();
    let pool = |kind| Box::new(Pool::new(device, kind, options).unwrap());
    let mut resources: Vec<(_, Box<dyn MemoryResource>)> = vec![
        ("managed", Box::new(ManagedMemory::new(device))),
        ("device", Box::new(DeviceMemory::new(device))),
        ("pinned", Box::new(PinnedMemory::new(device))),
        ("unified pool", pool(MemoryKind::Managed)),
        ("device pool", pool(MemoryKind::Device)),
        ("pinned pool", pool(MemoryKind::Pinned)),
    ];
    if device.capabilities().pageable_memory_access {
        let system = SystemMemory::new(device);
        resources.push(("system", Box::new(system.clone())));
        resources.push(("headroom", Box::new(system.headroom_bytes(1 << 30))));
    }
    resources
}

/// Runs a test on each resource of each machine.
fn on_each(test: impl Fn(&str, &dyn MemoryResource, &Device)) {
    for gpu in [H200, Gh200, Hmm, Pascal, NoConcurrentAccess] {
        let (_sim, device, _) = simulated(gpu);
        for (name, memory) in resources(&device) {
            assert_eq!(memory.device().ordinal(), device.ordinal());
            test(&format!("{name} on {gpu:?}"), &*memory, &device);
        }
    }
}

/// claim 4
#[test]
fn buffers_hold_zeros_or_the_slice_and_more_than_there_is_changes_nothing() {
    on_each(|name, memory, device| {
        // More than a process can address, because a system that overcommits maps any amount below that.
        let before = device.memory_info().unwrap();
        fails!(
            AnyBuffer::zeroed_in(memory, 1 << 46),
            Error::OutOfMemory { .. }
        );
        assert_eq!(device.memory_info().unwrap(), before, "{name}");
        for len in [0, 1, 1000, 300_000] {
            let elements: Vec<u32> = (0..len as u32).collect();
            // The second round reuses memory of the first, if the resource does.
            for _ in 0..2 {
                let zeros = AnyBuffer::zeroed_in(memory, len).unwrap();
                let copy = AnyBuffer::from_slice_in(memory, &elements).unwrap();
                assert_eq!(zeros.to_vec().unwrap(), vec![0; len], "{name}");
                assert_eq!(copy.to_vec().unwrap(), elements, "{name}");
            }
        }
        // Nor is memory freed while the next resource looks.
        device.runtime().reclaim().unwrap();
    });
}

/// A buffer like another one is of the same resource: the limit of the resource refuses it, where the device's default memory would not.
#[test]
fn a_buffer_like_another_comes_from_its_resource() {
    const LIMIT: usize = 2 << 20;
    let (_sim, device, _stream) = simulated(Gpu::H200);
    let options = PoolOptions::default().slab_bytes(LIMIT).limit_bytes(LIMIT);
    for kind in [MemoryKind::Managed, MemoryKind::Device, MemoryKind::Pinned] {
        let memory = Pool::new(&device, kind, options).unwrap();
        each!(AnyBuffer::zeroed_in(&memory, 1000).unwrap(), first => {
            let like = first.zeroed_like(2000).unwrap();
            assert_eq!(like.to_vec().unwrap(), [0; 2000]);
            fails!(like.zeroed_like(LIMIT / 2), Error::OutOfMemory { .. });
            assert!(first.zeroed_like(0).unwrap().is_empty());
        });
    }
    let default = UnifiedBuffer::<u32>::zeroed(&device, 10).unwrap();
    assert_eq!(default.zeroed_like(LIMIT).unwrap().len(), LIMIT);
}

/// Pinned memory of 4 MiB and more is made of the system's huge pages, if CUDA registers them.
#[test]
fn large_pinned_memory_is_registered() {
    const FROM: usize = 4 << 20;
    // A refused registration is undone, in two attempts.
    for (registers, refused, expected) in [
        (true, false, [1, 1]),
        (false, false, [0, 0]),
        (true, true, [1, 2]),
    ] {
        let settings = |builder: Builder| builder.gpu(Gpu::H200).host_register(registers);
        let (sim, device, stream) = simulated_with(settings);
        without_pools(&device);
        if refused {
            sim.fail(Fail::call("cudaHostRegister").with(cudaError::cudaErrorMemoryAllocation));
        }
        let mut pinned = PinnedBuffer::<u8>::zeroed(&device, FROM + 1).unwrap();
        pinned.fill_on(7, &stream).unwrap();
        assert!(pinned.host().unwrap().iter().all(|byte| *byte == 7));
        let mut small = PinnedBuffer::<u8>::zeroed(&device, FROM - 1).unwrap();
        stream.copy_range(&pinned, 2.., &mut small, 0).unwrap();
        assert_eq!(small.host().unwrap()[FROM - 2], 7);
        pinned.close().unwrap();
        let calls = ["cudaHostRegister", "cudaHostUnregister"].map(|name| calls(&sim, name));
        assert_eq!(calls, expected);
    }
}
