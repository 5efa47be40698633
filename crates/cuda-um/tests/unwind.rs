//! Drops by a panic, on other threads and in every order: nothing is freed in use, and nothing is left.

mod support;

use cuda_um::{
    DeviceBuffer, DevicePool, PinnedPool, PoolOptions, RegisteredBuffer, UnifiedBuffer, UnifiedPool,
};
use cuda_um_sim::Gpu;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use support::{Add, simulated};

/// The panic on purpose.
struct OnPurpose;

/// Runs what ends by [`OnPurpose`].
fn unwinds(body: impl FnOnce()) {
    let panic = catch_unwind(AssertUnwindSafe(body)).unwrap_err();
    assert!(panic.is::<OnPurpose>(), "another panic");
}

#[test]
fn a_panic_drops_guards_buffers_streams_and_pools() {
    for gpu in [Gpu::H200, Gpu::NoConcurrentAccess] {
        let (sim, device, stream) = simulated(gpu);
        let runtime = device.runtime().clone();
        let mut kept = UnifiedBuffer::from_slice(&device, &[3u32; 1000]).unwrap();
        unwinds(|| {
            let stream = device.stream().unwrap();
            let pool = UnifiedPool::new(&device, PoolOptions::default()).unwrap();
            let add = Add::load(&device);
            let mut pooled = pool.zeroed::<u32>(1000).unwrap();
            let mut in_use = DeviceBuffer::<u32>::zeroed(&device, 1000).unwrap();
            let paused = sim.pause();
            add.launch(&stream, 1000, (&mut pooled, 1000u32, 1u32))
                .unwrap();
            add.launch(&stream, 1000, (&mut in_use, 1000u32, 1u32))
                .unwrap();
            drop(paused);
            let mut guard = kept.host_mut().unwrap();
            guard[0] = 4;
            panic_any(OnPurpose);
        });
        // The guard is gone: where it kept the device idle, it does not any more.
        kept.fill(5, &stream).unwrap();
        assert_eq!(kept.host().unwrap()[..2], [5, 5]);
        drop((kept, stream, device));
        runtime.reclaim().unwrap();
    }
}

#[test]
fn a_panic_in_a_scope_of_registered_memory_waits_and_unregisters() {
    let (_sim, device, stream) = simulated(Gpu::H200);
    let runtime = device.runtime().clone();
    let add = Add::load(&device);
    let mut memory = vec![0u32; 5000];
    unwinds(|| {
        RegisteredBuffer::scope(&device, &mut memory, |buffer| {
            for _ in 0..20 {
                add.launch(&stream, 5000, (&mut *buffer, 5000u32, 1u32))
                    .unwrap();
            }
            panic_any(OnPurpose)
        })
        .unwrap()
    });
    // All of the work is over when the memory is the caller's again.
    assert_eq!(memory, [20; 5000]);
    drop((add, stream, device));
    runtime.reclaim().unwrap();
}

#[test]
fn a_drop_on_another_thread_while_work_is_in_flight() {
    let (sim, device, stream) = simulated(Gpu::H200);
    let runtime = device.runtime().clone();
    let add = Add::load(&device);
    let pool = PinnedPool::new(&device, PoolOptions::default()).unwrap();
    let mut buffers = (
        UnifiedBuffer::<u32>::zeroed(&device, 1000).unwrap(),
        DeviceBuffer::<u32>::zeroed(&device, 1000).unwrap(),
        pool.zeroed::<u32>(1000).unwrap(),
    );
    let paused = sim.pause();
    add.launch(&stream, 1000, (&mut buffers.0, 1000u32, 1u32))
        .unwrap();
    add.launch(&stream, 1000, (&mut buffers.1, 1000u32, 1u32))
        .unwrap();
    add.launch(&stream, 1000, (&mut buffers.2, 1000u32, 1u32))
        .unwrap();
    // Returns while the work is held up: no drop waits.
    std::thread::spawn(move || drop(buffers)).join().unwrap();
    drop(paused);
    drop((add, pool, stream, device));
    runtime.reclaim().unwrap();
}

/// Every order of `0..count`.
fn orders(count: usize) -> Vec<Vec<usize>> {
    if count == 0 {
        return vec![Vec::new()];
    }
    let shorter = orders(count - 1).into_iter();
    shorter
        .flat_map(|order| {
            (0..count).map(move |at| {
                let mut order = order.clone();
                order.insert(at, count - 1);
                order
            })
        })
        .collect()
}

#[test]
fn handles_go_in_every_order() {
    let all = orders(6);
    assert_eq!(all.len(), 720);
    for order in all {
        let (sim, device, stream) = simulated(Gpu::H200);
        let runtime = device.runtime().clone();
        let (unified, on_device) = (
            UnifiedPool::new(&device, PoolOptions::default()).unwrap(),
            DevicePool::new(&device, PoolOptions::default()).unwrap(),
        );
        let mut own = DeviceBuffer::<u32>::zeroed(&device, 1000).unwrap();
        let mut pooled = (
            unified.zeroed::<u32>(1000).unwrap(),
            on_device.zeroed::<u32>(1000).unwrap(),
        );
        own.fill(1, &stream).unwrap();
        pooled.0.fill(1, &stream).unwrap();
        pooled.1.fill(1, &stream).unwrap();
        let mut handles: [Option<Box<dyn Any>>; 6] = [
            Some(Box::new(runtime.clone())),
            Some(Box::new(device)),
            Some(Box::new(stream)),
            Some(Box::new((unified, on_device))),
            Some(Box::new(pooled)),
            Some(Box::new(own)),
        ];
        for at in &order {
            drop(handles[*at].take());
        }
        // Memory of the driver's pool goes back when its stream comes to it, and the pool itself after that.
        runtime.device(0).unwrap().synchronize().unwrap();
        runtime.reclaim().unwrap();
        drop(runtime);
        assert_eq!(sim.leaks(), [], "{order:?}");
    }
}
