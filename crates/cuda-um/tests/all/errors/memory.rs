//! Memory that is not there, or that cannot be freed.

use super::*;

/// Allocates so much managed memory, and frees it.
fn managed(device: &Device, bytes: usize, options: UnifiedOptions) -> Result<()> {
    UnifiedBuffer::<u8>::uninit_with(device, bytes, options)?.close()
}

fn free_bytes(device: &Device) -> usize {
    device.memory_info().unwrap().free_bytes
}

#[test]
fn oversubscription_must_be_asked_for() {
    let (sim, device, _) = simulated_with(|builder| builder.total_memory_bytes(64 << 20));
    let options = UnifiedOptions::default();
    let refused = |bytes| fails!(managed(&device, bytes, options), Error::OutOfMemory { .. });
    let text = refused(65 * MIB);
    let why = "(0 bytes of managed memory live there), which needs oversubscription(Oversubscription::Allowed), of the options or of CudaBackendConfig";
    assert!(text.contains(why), "{text}");
    assert_eq!(calls(&sim, "cudaMallocManaged"), 0, "CUDA was not asked");
    let free = free_bytes(&device);
    managed(&device, free, options).unwrap();
    refused(free + 1);
    let taken = DeviceBuffer::<u8>::zeroed(&device, MIB).unwrap();
    // The memory in use is not managed.
    let text = refused(free);
    assert!(text.contains(" bytes of it are in use), which"), "{text}");
    taken.close().unwrap();
    device.trim();
    // Each of two fits, but not both together, although no page may be resident yet.
    let first = UnifiedBuffer::<u8>::uninit_with(&device, 40 * MIB, options).unwrap();
    refused(40 * MIB);
    first.close().unwrap();
    managed(&device, 40 * MIB, options).unwrap();
    let allowed = options.oversubscription(Oversubscription::Allowed);
    managed(&device, 80 * MIB, allowed).unwrap();
}

#[test]
fn no_resource_gives_more_managed_memory_than_is_free() {
    // Managed pools of the driver need CUDA 13.0.
    let sized = |builder: Builder| {
        builder
            .total_memory_bytes(64 << 20)
            .cuda(CudaVersion::V13_0)
    };
    let (_sim, device, _) = simulated_with(sized);
    let _others = DeviceBuffer::<u8>::zeroed(&device, 40 * MIB).unwrap();
    let free = free_bytes(&device);
    let (kind, options) = (MemoryKind::Managed, PoolOptions::default());
    let driver_pool = DriverPool::new(&device, kind, options).unwrap();
    let allowed = options.oversubscription(Oversubscription::Allowed);
    let of_all = DriverPool::new(&device, kind, allowed).unwrap();
    let resources: [&dyn MemoryResource; 3] = [
        &ManagedMemory::new(&device),
        &Pool::new(&device, kind, options).unwrap(),
        &driver_pool,
    ];
    for resource in resources {
        let refused = UnifiedBuffer::<u8>::uninit_in(resource, free + MIB);
        fails!(refused, Error::OutOfMemory { free_bytes, .. } if free_bytes == free);
    }
    let most = UnifiedBuffer::<u8>::uninit_in(&driver_pool, free / MIB * MIB).unwrap();
    most.close().unwrap();
    UnifiedBuffer::<u8>::uninit_in(&of_all, free + MIB).unwrap();
}

#[test]
fn what_the_operating_system_caches_is_free_on_an_integrated_device() {
    let sized = |gpu| {
        let sized = move |builder: Builder| builder.gpu(gpu).total_memory_bytes(1 << 30);
        simulated_with(move |builder| sized(builder).page_cache_bytes(600 << 20))
    };
    // An eighth is reserved. What the cache has can be reclaimed, less a 32nd of the memory.
    let (sim, device, _) = sized(Gpu::Gb10);
    let free = free_bytes(&device);
    assert_eq!(free, (1024 - 128 - 32) * MIB);
    let options = UnifiedOptions::default().placement(Placement::Managed);
    managed(&device, 700 * MIB, options).unwrap();
    let driver_pool = DriverPool::new(&device, MemoryKind::Device, PoolOptions::default()).unwrap();
    let all = DeviceBuffer::<u8>::uninit_in(&driver_pool, 700 * MIB).unwrap();
    all.close().unwrap();
    driver_pool.trim();
    let all = DeviceBuffer::<u8>::uninit(&device, 700 * MIB).unwrap();
    all.close().unwrap();
    device.trim();

    // Full of device memory, the machine would hang.
    sim.clear_trace();
    let alone = DeviceMemory::new(&device);
    for refused in [
        DeviceBuffer::<u8>::uninit(&device, 880 * MIB),
        DeviceBuffer::<u8>::uninit_in(&alone, 880 * MIB),
        DeviceBuffer::<u8>::uninit_in(&driver_pool, 880 * MIB),
    ] {
        fails!(
            refused,
            Error::OutOfMemory { free_bytes, .. } if free_bytes == free,
            "device memory on device 0, not alloc",
            "Oversubscription::Allowed"
        );
    }
    assert_eq!(calls(&sim, "cudaMalloc"), 0, "CUDA was not asked");
    let allowed = alone.oversubscription(Oversubscription::Allowed);
    let all = DeviceBuffer::<u8>::uninit_in(&allowed, 880 * MIB).unwrap();
    // The larger of the two: cudaMemGetInfo has nothing free.
    assert_eq!(free_bytes(&device), 0);
    all.close().unwrap();

    let (sim, device, _) = sized(Gpu::H200);
    sim.clear_trace();
    let free = free_bytes(&device);
    assert_eq!((free, sim.trace().len()), (896 * MIB, 1));
    let all = DeviceBuffer::<u8>::uninit_in(&DeviceMemory::new(&device), free).unwrap();
    all.close().unwrap();
    assert_eq!(calls(&sim, "cudaMemGetInfo"), 1, "it was not asked again");
}

/// CUDA refuses the first try of both. Neither thread gets that error.
#[test]
fn several_threads_wait_for_memory_on_its_way_back() {
    let (sim, device, stream) = simulated_with(|builder| builder.total_memory_bytes(64 << 20));
    without_pools(&device);
    let mut large = DeviceBuffer::<u8>::zeroed(&device, 40 * MIB).unwrap();
    let paused = sim.pause();
    large.fill_on(1, &stream).unwrap();
    drop(large);
    let refusals = calls(&sim, "cudaMalloc");
    std::thread::scope(|scope| {
        let allocate = || DeviceBuffer::<u8>::zeroed(&device, 20 * MIB);
        let threads = [(); 2].map(|()| scope.spawn(allocate));
        while calls(&sim, "cudaMalloc") < refusals + 2 {
            std::thread::yield_now();
        }
        drop(paused);
        let buffers = threads.map(|thread| thread.join().unwrap());
        for buffer in buffers {
            buffer.unwrap().close().unwrap();
        }
    });
}

/// claim 23
#[test]
fn what_a_deferred_free_met_is_told() {
    let (sim, device, stream) = unpooled(Gpu::H200);
    let mut buffer = DeviceBuffer::<u32>::zeroed(&device, 100).unwrap();
    let paused = sim.pause();
    buffer.fill_on(3, &stream).unwrap();
    drop(buffer);
    sim.fail(Fail::call("cudaFree").with(cudaError::cudaErrorInvalidValue));
    sim.leaves(1, "its free is refused", |leak| {
        matches!(leak, Leak::Memory { bytes: 400, .. })
    });
    drop(paused);
    let error = device.runtime().reclaim().unwrap_err();
    assert!(error.to_string().starts_with("cudaFree: "), "{error}");
    device.runtime().reclaim().unwrap();
}

/// claim 23
#[test]
fn close_tells_that_memory_could_not_be_freed() {
    let (sim, device, _) = unpooled(Gpu::H200);
    for (kind, call) in [
        (MemoryKind::Managed, "cudaFree"),
        (MemoryKind::Device, "cudaFree"),
        (MemoryKind::Pinned, "cudaFreeHost"),
    ] {
        let buffer = any_buffer!(kind, Buffer => Buffer::zeroed(&device, 25).unwrap());
        device.synchronize().unwrap();
        sim.fail(Fail::call(call).with(cudaError::cudaErrorInvalidValue));
        let error = buffer.close().unwrap_err().to_string();
        assert!(error.starts_with(&format!("{call}: ")), "{error}");
    }
    sim.leaves(3, "their frees are refused", |leak| {
        matches!(leak, Leak::Memory { bytes: 100, .. })
    });
}

/// Pinned memory was freed while copies used it, if the wait for them failed.
#[test]
fn staging_memory_is_not_freed_under_copies_whose_wait_fails() {
    let staged = TransferOptions::default().threads(1).ring_bytes(800 << 10);
    // A small copy and one through the ring. If the wait fails again and again, nothing tells that the copies are done, so the memory is leaked.
    for (bytes, always) in [
        (1000, false),
        (1000, true),
        (300_000, false),
        (300_000, true),
    ] {
        let leaked = usize::from(always);
        let (sim, device, _) = simulated(Gpu::H200);
        device.set_transfer_options(staged);
        let mut memory = DeviceBuffer::<u8>::zeroed(&device, bytes).unwrap();
        let hold = sim.hold(0);
        memory.copy_from_host(&vec![7; bytes]).unwrap();
        assert!(!hold.is_over(), "the copy is still to run");
        let fail = Fail::call("cudaDeviceSynchronize").with(cudaError::cudaErrorInvalidValue);
        sim.fail(if always { fail.from_then_on() } else { fail });
        device.set_transfer_options(staged);
        assert_eq!(hold.is_over(), !always, "{bytes} bytes");
        sim.clear_failures();
        drop(hold);
        assert_eq!(calls(&sim, "cudaFreeHost"), 1 - leaked);
        assert_eq!(memory.to_vec().unwrap(), vec![7; bytes]);
        device.set_transfer_options(staged);
        memory.close().unwrap();
        sim.leaves(
            leaked,
            "no wait works",
            |leak| matches!(leak, Leak::Memory { kind, .. } if *kind == "cudaHostAlloc"),
        );
    }
}
