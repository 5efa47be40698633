//! The driver's pools of device memory: order, other devices, frees that fail.

use crate::pool::*;
use cuda_um::{Error, PinnedBuffer, UnifiedBuffer};
use cuda_um_sim::{CudaVersion, Fail, Leak};
use cuda_um_sys::cudaError;
use cuda_um_testkit::{calls, on, simulated};

fn pool(device: &Device) -> DriverPool {
    DriverPool::new(device, MemoryKind::Device, small_slabs()).unwrap()
}

#[test]
fn what_a_device_or_the_driver_lacks_is_named() {
    let new = |device: &Device, kind| DriverPool::new(device, kind, small_slabs());
    let unsupported = |device: &Device, kind| fails!(new(device, kind), Error::NotSupported { .. });
    let (_sim, old, _) = simulated(Gpu::Maxwell);
    assert!(unsupported(&old, MemoryKind::Device).contains("has no memory pools"));
    for (gpu, cuda, why) in [
        (Gpu::H200, CudaVersion::V12_9, "and there is CUDA 12.9"),
        (
            Gpu::NoConcurrentAccess,
            CudaVersion::V13_0,
            "concurrentManagedAccess",
        ),
    ] {
        let (_sim, device, _) = simulated_with(|builder| builder.gpu(gpu).cuda(cuda));
        assert!(unsupported(&device, MemoryKind::Managed).contains(why));
    }
    let (sim, device, _) = simulated(Gpu::H200);
    let text = unsupported(&device, MemoryKind::Pinned);
    assert!(text.contains("managed memory or device memory"), "{text}");
    // A device that reports pools, but cannot create any.
    sim.fail(Fail::call("cudaMemPoolCreate").with(cudaError::cudaErrorNotSupported));
    let error = new(&device, MemoryKind::Device).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported, "{error}");
    // Nothing is left of an attempt that fails.
    for name in ["cudaMemPoolCreate", "cudaMemPoolSetAttribute"] {
        sim.fail(Fail::call(name).with(cudaError::cudaErrorInvalidValue));
        let failed = new(&device, MemoryKind::Device);
        fails!(failed, Error::Call { call, .. } if call == name);
    }
    // The pool of the failed attempt has no memory, and serves the next owner.
    let before = calls(&sim, "cudaMemPoolCreate");
    drop(pool(&device));
    assert_eq!(calls(&sim, "cudaMemPoolCreate"), before);
}

/// With driver 580, the destruction of a pool beside a synchronization in another thread corrupts the driver's memory.
#[test]
fn pools_of_the_driver_are_not_destroyed_while_the_runtime_lives() {
    let (sim, device, _) = simulated(Gpu::H200);
    let free_bytes = || device.memory_info().unwrap().free_bytes;
    let free_before = free_bytes();
    for round in 1..=3 {
        let pool = pool(&device);
        let data = vec![round; 1 << 20];
        let buffer = DeviceBuffer::from_slice_in(&pool, &data).unwrap();
        assert_eq!(buffer.to_vec().unwrap(), data);
        drop((buffer, pool));
        device.runtime().reclaim().unwrap();
        assert_eq!(free_bytes(), free_before, "the pool released its memory");
    }
    assert_eq!(calls(&sim, "cudaMemPoolCreate"), 1);
    assert_eq!(calls(&sim, "cudaMemPoolDestroy"), 0);
    // The simulator reports what is left when the runtime has ended.
    drop(device);
    assert_eq!(calls(&sim, "cudaMemPoolDestroy"), 1);
}

/// claim 29
#[test]
fn no_other_device_reaches_memory_of_a_drivers_pool() {
    let (sim, first, on_first) = simulated_with(|builder| builder.devices(3));
    let [(second, on_second), (_, on_third)] = [1, 2].map(|number| on(first.runtime(), number));
    let pool_here = pool(&first);
    let mut here = DeviceBuffer::from_slice_in(&pool_here, &[1u32, 2, 3]).unwrap();
    let mut there = DeviceBuffer::<u32>::zeroed_in(&pool(&second), 3).unwrap();
    let mut plain = DeviceBuffer::<u32>::zeroed(&second, 3).unwrap();
    let mut managed = UnifiedBuffer::<u32>::zeroed(&second, 3).unwrap();
    let mut pinned = PinnedBuffer::<u32>::zeroed(&second, 3).unwrap();

    // The driver gets both devices, so a stream of either device works.
    on_first.copy(&here, &mut there).unwrap();
    on_second.copy(&there, &mut plain).unwrap();
    assert_eq!(plain.to_vec().unwrap(), [1, 2, 3]);
    here.fill_on(9, &on_first).unwrap();
    on_second.copy_range(&here, 1..3, &mut plain, 0).unwrap();
    on_first.copy_range(&plain, 0..1, &mut here, 2).unwrap();
    assert_eq!(plain.to_vec().unwrap(), [9, 9, 3]);
    assert_eq!(calls(&sim, "cudaMemcpyPeerAsync"), 3);
    // All other copies must be on the pool's device.
    on_first.copy(&here, &mut managed).unwrap();
    on_first.copy(&here, &mut pinned).unwrap();
    let found = (managed.host().unwrap()[0], pinned.host().unwrap()[2]);
    assert_eq!(found, (9, 9));
    let same = DeviceBuffer::from_slice_in(&pool_here, &[5u32; 3]).unwrap();
    for refused in [
        on_second.copy(&here, &mut managed),
        on_second.copy(&pinned, &mut here),
        on_third.copy(&here, &mut there),
        on_second.copy(&same, &mut here),
        here.fill_on(1, &on_second),
    ] {
        fails!(
            refused,
            Error::DeviceMismatch {
                expected: 0,
                found: 1..,
                ..
            }
        );
    }
    assert_eq!(here.to_vec().unwrap(), [9, 9, 9], "nothing was written");
    // Memory of `cudaMalloc` does not belong to a pool.
    on_first.copy(&pinned, &mut plain).unwrap();
    assert_eq!(plain.to_vec().unwrap(), [9, 9, 9]);
}

/// claim 3
#[test]
fn the_free_is_enqueued_behind_every_use() {
    on_each(&[Driver], |it| {
        let second = it.device.create_stream().unwrap();
        let pool = it.pool();
        let source = pool.copy_of(&[4; 100]);
        let mut copies = [(); 2].map(|()| DeviceBuffer::zeroed(&it.device, 100).unwrap());
        it.device.synchronize().unwrap();
        let paused = it.sim().pause();
        for (stream, target) in [&it.stream, &second].into_iter().zip(&mut copies) {
            copy(&source, target, stream);
        }
        it.sim().clear_trace();
        drop(source);
        let mut order: Vec<_> = it.sim().trace().iter().map(|call| call.name).collect();
        order.retain(|name| ["cudaStreamWaitEvent", "cudaFreeAsync"].contains(name));
        let waits = "cudaStreamWaitEvent";
        assert_eq!(order, [waits, waits, "cudaFreeAsync"]);
        assert_eq!(pool.stats().live_buffers, 0, "for the pool it is gone");
        drop(paused);
        for target in &copies {
            assert_eq!(target.to_vec().unwrap(), [4; 100]);
        }
    });
}

/// claim 2
#[test]
fn work_on_another_stream_comes_after_the_allocation() {
    on_each(&[Driver], |it| {
        let pool = it.pool();
        let paused = it.sim().pause();
        it.sim().clear_trace();
        let mut buffer = pool.uninit(100).unwrap();
        assert_eq!(it.calls("cudaEventRecord"), 0, "only at a wait");
        buffer.fill_on(6, &it.stream);
        assert_eq!(it.calls("cudaStreamWaitEvent"), 1);
        drop(paused);
        assert_eq!(buffer.to_vec().unwrap(), [6; 100]);
        buffer.close().unwrap();
    });
}

#[test]
fn a_free_that_cannot_be_ordered_is_made_later() {
    on_each(&[Driver], |it| {
        let pool = it.pool();
        let mut other = DeviceBuffer::zeroed(&it.device, 1000).unwrap();
        it.device.synchronize().unwrap();
        for call in ["cudaStreamWaitEvent", "cudaEventRecord"] {
            let mut buffer = pool.zeroed(1000).unwrap();
            it.add(1000, 1, &mut buffer, &it.stream);
            let paused = it.sim().pause();
            copy(&buffer, &mut other, &it.stream);
            it.sim().clear_trace();
            it.sim().fail(Fail::call(call));
            drop(buffer);
            assert_eq!(it.calls("cudaFreeAsync"), 0, "{call}");
            drop(paused);
            it.device.runtime().reclaim().unwrap();
            assert_eq!(it.calls("cudaFree"), 1, "{call}");
            assert_eq!(other.to_vec().unwrap(), [1; 1000]);
            assert_eq!(pool.stats().live_buffers, 0);
        }
    });
}

/// claim 23
#[test]
fn what_cannot_be_freed_is_leaked_and_counted() {
    let (sim, device, _) = simulated(Gpu::H200);
    sim.leaves(
        3,
        "their frees are refused, and so their pool stays",
        |leak| matches!(leak, Leak::Memory { bytes: 100, .. } | Leak::Pool),
    );
    let pool = pool(&device);
    let [lost, closed] = [(); 2].map(|()| DeviceBuffer::<u8>::uninit_in(&pool, 100).unwrap());
    sim.fail(Fail::call("cudaFreeAsync"));
    drop(lost);
    assert_eq!(pool.stats().live_buffers, 2, "one is unknown to the pool");
    sim.fail(Fail::call("cudaFree"));
    fails!(
        closed.close(),
        Error::Call {
            call: "cudaFree",
            ..
        }
    );
    assert_eq!(pool.stats().live_bytes, 200);
    let next = DeviceBuffer::from_slice_in(&pool, &[1; 9]).unwrap();
    assert_eq!(next.to_vec().unwrap(), [1; 9]);
}

/// claim 6
#[test]
fn beside_a_host_guard_without_concurrent_access() {
    let (sim, device, stream) = simulated(Gpu::NoConcurrentAccess);
    let pool = pool(&device);
    let mut managed = UnifiedBuffer::<u32>::zeroed(&device, 100).unwrap();
    let mut buffer = DeviceBuffer::<u32>::zeroed_in(&pool, 100).unwrap();
    buffer.fill_on(1, &stream).unwrap();
    let guard = managed.host_mut().unwrap();
    drop(DeviceBuffer::<u8>::uninit_in(&pool, 1).unwrap());
    assert_eq!(pool.stats().live_buffers, 1);
    sim.clear_trace();
    drop(buffer);
    device.runtime().reclaim().unwrap();
    // A guard holds only kernels and managed memory.
    let frees = ["cudaFreeAsync", "cudaFree"].map(|name| calls(&sim, name));
    assert_eq!(frees, [1, 0]);
    drop(guard);
    drop(DeviceBuffer::<u8>::uninit_in(&pool, 1).unwrap());
    drop((pool, managed));
    no_memory_left(&sim, device.runtime());
}
