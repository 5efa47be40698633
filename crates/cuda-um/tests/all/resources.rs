//! The same rules for every memory resource: contents, order, drops in use, limits.

use cuda_um::{
    Device, DeviceBuffer, ErrorKind, MemoryKind, PinnedBuffer, Pool, PoolOptions, Result,
    UnifiedBuffer,
    resource::{DeviceMemory, ManagedMemory, MemoryResource, PinnedMemory, SystemMemory},
};
use cuda_um_sim::{Builder, Fail, Gpu};
use cuda_um_sys::cudaError;
use cuda_um_testkit::{calls, simulated, simulated_with, without_pools};

/// A buffer of any type.
trait Elements {
    fn contents(&self) -> Vec<u32>;
    fn like(&self, len: usize) -> Result<Box<dyn Elements>>;
}

macro_rules! elements {
    ($($buffer:ident)*) => {$(
        impl Elements for $buffer<u32> {
            fn contents(&self) -> Vec<u32> {
                self.to_vec().unwrap()
            }

            fn like(&self, len: usize) -> Result<Box<dyn Elements>> {
                Ok(Box::new(self.zeroed_like(len)?))
            }
        }
    )*};
}
elements! { UnifiedBuffer DeviceBuffer PinnedBuffer }

fn resources(device: &Device) -> Vec<(&'static str, Box<dyn MemoryResource>)> {
    let options = PoolOptions::default();
    let pool = || Pool::new(device, MemoryKind::Device, options).unwrap();
    let mut resources: Vec<(_, Box<dyn MemoryResource>)> = vec![
        ("managed", Box::new(ManagedMemory::new(device))),
        ("device", Box::new(DeviceMemory::new(device))),
        ("pinned", Box::new(PinnedMemory::new(device))),
        (
            "unified pool",
            Box::new(Pool::new(device, MemoryKind::Managed, options).unwrap()),
        ),
        ("device pool", Box::new(pool())),
        (
            "pinned pool",
            Box::new(Pool::new(device, MemoryKind::Pinned, options).unwrap()),
        ),
    ];
    if device.capabilities().pageable_memory_access {
        let system = SystemMemory::new(device);
        resources.push(("system", Box::new(system.clone())));
        resources.push(("headroom", Box::new(system.headroom_bytes(1 << 30))));
    }
    resources
}

fn zeroed(memory: &dyn MemoryResource, len: usize) -> Result<Box<dyn Elements>> {
    Ok(match memory.kind() {
        MemoryKind::Managed | MemoryKind::System => {
            Box::new(UnifiedBuffer::zeroed_in(memory, len)?)
        }
        MemoryKind::Device => Box::new(DeviceBuffer::zeroed_in(memory, len)?),
        _ => Box::new(PinnedBuffer::zeroed_in(memory, len)?),
    })
}

fn from_slice(memory: &dyn MemoryResource, elements: &[u32]) -> Result<Box<dyn Elements>> {
    Ok(match memory.kind() {
        MemoryKind::Managed | MemoryKind::System => {
            Box::new(UnifiedBuffer::from_slice_in(memory, elements)?)
        }
        MemoryKind::Device => Box::new(DeviceBuffer::from_slice_in(memory, elements)?),
        _ => Box::new(PinnedBuffer::from_slice_in(memory, elements)?),
    })
}

/// Runs a test on each resource of each machine.
fn on_each(test: impl Fn(&str, &dyn MemoryResource, &Device)) {
    for gpu in [
        Gpu::H200,
        Gpu::Gh200,
        Gpu::Hmm,
        Gpu::Pascal,
        Gpu::NoConcurrentAccess,
    ] {
        let (_sim, device, _) = simulated(gpu);
        for (name, memory) in resources(&device) {
            assert_eq!(memory.device().ordinal(), device.ordinal());
            test(&format!("{name} on {gpu:?}"), &*memory, &device);
        }
    }
}

#[test]
fn buffers_hold_zeros_or_the_slice() {
    on_each(|name, memory, _| {
        for len in [0, 1, 1000, 300_000] {
            let elements: Vec<u32> = (0..len as u32).collect();
            // The second round reuses memory of the first, if the resource does.
            for _ in 0..2 {
                let zeros = zeroed(memory, len).unwrap();
                let copy = from_slice(memory, &elements).unwrap();
                assert_eq!(zeros.contents(), vec![0; len], "{name}");
                assert_eq!(copy.contents(), elements, "{name}");
            }
        }
    });
}

#[test]
fn more_than_there_is_is_refused_and_changes_nothing() {
    on_each(|name, memory, device| {
        // Memory of the resource before this one may be freed later.
        device.runtime().reclaim().unwrap();
        let before = device.memory_info().unwrap();
        // More than a process can address, because a system that overcommits maps any amount below that.
        let huge = zeroed(memory, 1 << 46)
            .err()
            .expect("no process has 256 TiB");
        assert_eq!(huge.kind(), ErrorKind::OutOfMemory, "{name}: {huge}");
        assert_eq!(device.memory_info().unwrap(), before, "{name}");
        assert_eq!(zeroed(memory, 10).unwrap().contents(), [0; 10], "{name}");
    });
}

/// A buffer like another one is of the same resource: the limit of the resource refuses it, where the device's default memory would not.
#[test]
fn a_buffer_like_another_comes_from_its_resource() {
    const LIMIT: usize = 2 << 20;
    let (_sim, device, _stream) = simulated(Gpu::H200);
    let options = PoolOptions::default().slab_bytes(LIMIT);
    let mut memories: Vec<Box<dyn MemoryResource>> = Vec::new();
    for kind in [MemoryKind::Managed, MemoryKind::Device, MemoryKind::Pinned] {
        let pool = |options| Pool::new(&device, kind, options).unwrap();
        memories.push(Box::new(pool(options.limit_bytes(LIMIT))));
    }
    for memory in memories {
        let first = zeroed(&*memory, 1000).unwrap();
        let like = first.like(2000).unwrap();
        assert_eq!(like.contents(), [0; 2000]);
        let refused = like.like(LIMIT / 2).map(drop).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::OutOfMemory, "{refused}");
        assert!(first.like(0).unwrap().contents().is_empty());
    }
    let default = UnifiedBuffer::<u32>::zeroed(&device, 10).unwrap();
    assert_eq!(default.like(LIMIT).unwrap().contents(), [0; LIMIT]);
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
