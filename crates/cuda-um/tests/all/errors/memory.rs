//! Memory that is not there, or that cannot be freed.

use super::*;

#[test]
fn out_of_memory_says_how_much() {
    let (_sim, device, _) = simulated_with(|builder| builder.total_memory_bytes(64 << 20));
    let error = DeviceBuffer::<u8>::zeroed(&device, 65 * MIB).unwrap_err();
    let Error::OutOfMemory {
        call,
        requested_bytes,
        free_bytes,
        total_bytes,
        ..
    } = error
    else {
        panic!("{error}")
    };
    assert_eq!(
        (call, requested_bytes, total_bytes),
        ("cudaMalloc", 65 * MIB, 64 * MIB)
    );
    assert!(free_bytes <= total_bytes && free_bytes > 0);
    assert!(
        DeviceBuffer::<u8>::zeroed(&device, 16 * MIB).is_ok(),
        "a smaller one still works"
    );
}

#[test]
fn oversubscription_must_be_asked_for() {
    let (sim, device, _) = simulated_with(|builder| builder.total_memory_bytes(64 << 20));
    let error = UnifiedBuffer::<u8>::zeroed(&device, 65 * MIB).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    let text = error.to_string();
    assert!(
        text.contains(
            "(0 bytes of managed memory live there), which needs Oversubscription::Allowed"
        ),
        "{text}"
    );
    assert_eq!(calls(&sim, "cudaMallocManaged"), 0, "CUDA was not asked");

    let free = device.memory_info().unwrap().free_bytes;
    let options = UnifiedOptions::default();
    let all = UnifiedBuffer::<u8>::uninit_with(&device, free, options).unwrap();
    all.close().unwrap();
    let taken = DeviceBuffer::<u8>::zeroed(&device, MIB).unwrap();
    let error = UnifiedBuffer::<u8>::uninit_with(&device, free, options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    // The memory in use is not managed.
    let text = error.to_string();
    assert!(text.contains(" bytes of it are in use), which"), "{text}");
    taken.close().unwrap();
    device.trim();
    let error = UnifiedBuffer::<u8>::uninit_with(&device, free + 1, options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);

    // Each of the two fits, but not both together: the second is refused, although no page may be resident yet.
    let first = UnifiedBuffer::<u8>::uninit_with(&device, 40 * MIB, options).unwrap();
    let error = UnifiedBuffer::<u8>::uninit_with(&device, 40 * MIB, options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    first.close().unwrap();
    UnifiedBuffer::<u8>::uninit_with(&device, 40 * MIB, options)
        .unwrap()
        .close()
        .unwrap();

    let allowed = options.oversubscription(Oversubscription::Allowed);
    UnifiedBuffer::<u8>::zeroed_with(&device, 80 * MIB, allowed)
        .unwrap()
        .close()
        .unwrap();
}

#[test]
fn no_resource_gives_more_managed_memory_than_is_free() {
    // Managed pools of the driver need CUDA 13.0.
    let sized = |builder: Builder| builder.total_memory_bytes(64 << 20);
    let (_sim, device, _) = simulated_with(|builder| {
        sized(builder)
            .gpu(Gpu::H200)
            .cuda(cuda_um_sim::CudaVersion::V13_0)
    });
    let _others = DeviceBuffer::<u8>::zeroed(&device, 40 * MIB).unwrap();
    let free = device.memory_info().unwrap().free_bytes;
    let (kind, options) = (MemoryKind::Managed, PoolOptions::default());
    let pool = Pool::new(&device, kind, options).unwrap();
    let driver_pool = DriverPool::new(&device, kind, options).unwrap();
    let allowed = options.oversubscription(Oversubscription::Allowed);
    let of_all = DriverPool::new(&device, kind, allowed).unwrap();
    let resources: [(&str, &dyn MemoryResource); 3] = [
        ("alone", &ManagedMemory::new(&device)),
        ("pool", &pool),
        ("driver pool", &driver_pool),
    ];
    for (name, resource) in resources {
        let error = UnifiedBuffer::<u8>::uninit_in(resource, free + MIB).unwrap_err();
        let Error::OutOfMemory { free_bytes, .. } = error else {
            panic!("{name}: {error}")
        };
        assert_eq!(free_bytes, free, "{name}");
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
    let info = device.memory_info().unwrap();
    assert_eq!(info.free_bytes, (1024 - 128 - 32) * MIB);
    let managed = UnifiedOptions::default().placement(Placement::Managed);
    let all = UnifiedBuffer::<u8>::uninit_with(&device, 700 * MIB, managed).unwrap();
    all.close().unwrap();
    let driver_pool = DriverPool::new(&device, MemoryKind::Device, PoolOptions::default()).unwrap();
    let all = DeviceBuffer::<u8>::uninit_in(&driver_pool, 700 * MIB).unwrap();
    all.close().unwrap();
    driver_pool.trim();
    DeviceBuffer::<u8>::uninit(&device, 700 * MIB)
        .unwrap()
        .close()
        .unwrap();
    device.trim();

    // Full of device memory, the machine would hang.
    sim.clear_trace();
    let alone = DeviceMemory::new(&device);
    for refused in [
        DeviceBuffer::<u8>::uninit(&device, 880 * MIB),
        DeviceBuffer::<u8>::uninit_in(&alone, 880 * MIB),
        DeviceBuffer::<u8>::uninit_in(&driver_pool, 880 * MIB),
    ] {
        let error = refused.unwrap_err();
        let Error::OutOfMemory { free_bytes, .. } = error else {
            panic!("{error}")
        };
        assert_eq!(free_bytes, info.free_bytes, "{error}");
        let text = error.to_string();
        assert!(
            text.contains("device memory on device 0, not alloc"),
            "{text}"
        );
        assert!(text.contains("Oversubscription::Allowed"), "{text}");
    }
    assert_eq!(calls(&sim, "cudaMalloc"), 0, "CUDA was not asked");
    let allowed = alone.oversubscription(Oversubscription::Allowed);
    let all = DeviceBuffer::<u8>::uninit_in(&allowed, 880 * MIB).unwrap();
    // The larger of the two: cudaMemGetInfo has nothing free.
    assert_eq!(device.memory_info().unwrap().free_bytes, 0);
    all.close().unwrap();

    let (sim, device, _) = sized(Gpu::H200);
    sim.clear_trace();
    let free = device.memory_info().unwrap().free_bytes;
    assert_eq!(
        (free, sim.trace().len()),
        (896 * MIB, 1),
        "{:?}",
        sim.trace()
    );
    DeviceBuffer::<u8>::uninit_in(&DeviceMemory::new(&device), free)
        .unwrap()
        .close()
        .unwrap();
    assert_eq!(calls(&sim, "cudaMemGetInfo"), 1, "it was not asked again");
}

#[test]
fn memory_on_its_way_back_is_waited_for() {
    let (sim, device, stream) = simulated_with(|builder| builder.total_memory_bytes(64 << 20));
    let add = Add::load(&device);
    let mut large = DeviceBuffer::<u32>::zeroed(&device, 10 * MIB).unwrap();
    let paused = sim.pause();
    add.launch(&stream, 100, (&mut large, 100u32, 1u32))
        .unwrap();
    drop(large);
    let resume = std::thread::spawn(move || drop(paused));
    let again = DeviceBuffer::<u32>::zeroed(&device, 10 * MIB);
    resume.join().unwrap();
    again.unwrap().close().unwrap();
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

#[test]
fn a_failed_allocation_leaves_nothing_behind() {
    for call in [
        "cudaMallocManaged",
        "cudaMemPrefetchAsync",
        "cudaMemsetAsync",
    ] {
        let (sim, device, _) = unpooled(Gpu::H200);
        fail(&sim, call);
        assert!(
            UnifiedBuffer::<u8>::zeroed(&device, 5000).is_err(),
            "{call}"
        );
        device.runtime().reclaim().unwrap();
        assert_eq!(
            calls(&sim, "cudaFree"),
            usize::from(call != "cudaMallocManaged"),
            "{call}"
        );
    }
    for call in ["cudaHostAlloc", "cudaHostGetDevicePointer"] {
        let (sim, device, _) = unpooled(Gpu::H200);
        sim.fail(Fail::call(call).with(cudaError::cudaErrorInvalidValue));
        assert!(PinnedBuffer::<u8>::zeroed(&device, 5000).is_err(), "{call}");
        device.runtime().reclaim().unwrap();
        assert_eq!(
            calls(&sim, "cudaFreeHost"),
            usize::from(call != "cudaHostAlloc"),
            "{call}"
        );
    }
}

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

#[test]
fn close_tells_that_memory_could_not_be_freed() {
    let (sim, device, _) = unpooled(Gpu::H200);
    let unified = UnifiedBuffer::<u8>::zeroed(&device, 100).unwrap();
    let memory = DeviceBuffer::<u8>::zeroed(&device, 100).unwrap();
    let pinned = PinnedBuffer::<u8>::zeroed(&device, 100).unwrap();
    device.synchronize().unwrap();
    let refuse = |call| {
        let fail = Fail::call(call).with(cudaError::cudaErrorInvalidValue);
        sim.fail(fail);
    };
    refuse("cudaFree");
    let unified = unified.close().unwrap_err();
    refuse("cudaFree");
    let memory = memory.close().unwrap_err();
    refuse("cudaFreeHost");
    let pinned = pinned.close().unwrap_err();
    sim.leaves(3, "their frees are refused", |leak| {
        matches!(leak, Leak::Memory { bytes: 100, .. })
    });
    for (error, call) in [
        (unified, "cudaFree: "),
        (memory, "cudaFree: "),
        (pinned, "cudaFreeHost: "),
    ] {
        assert!(error.to_string().starts_with(call), "{call}{error}");
    }
}

#[test]
fn what_comes_before_a_free_is_tried_once_more() {
    let (sim, device, stream) = unpooled(Gpu::H200);
    let buffer = DeviceBuffer::<u8>::zeroed(&device, 100).unwrap();
    let add = Add::load(&device);
    device.synchronize().unwrap();
    let fail = || Fail::call("cudaGetDevice").with(cudaError::cudaErrorInvalidValue);
    sim.fail(fail());
    buffer.close().unwrap();
    sim.fail(fail());
    drop(add);
    sim.fail(fail());
    drop(stream);
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
