//! The driver's pools of device memory: order, other devices, frees that fail.

use crate::pool::{Driver, on_each, small_slabs};
use cuda_um::{
    Device, DeviceBuffer, Error, ErrorKind, MemoryKind, PinnedBuffer, UnifiedBuffer,
    resource::DriverPool,
};
use cuda_um_sim::{Fail, Gpu, Leak};
use cuda_um_sys::cudaError;
use cuda_um_testkit::{calls, no_memory_left, simulated, simulated_with};

fn pool(device: &Device) -> DriverPool {
    DriverPool::new(device, MemoryKind::Device, small_slabs()).unwrap()
}

#[test]
fn what_a_device_or_the_driver_lacks_is_named() {
    let (_sim, device, _) = simulated(Gpu::Maxwell);
    let new = |device: &Device, kind| DriverPool::new(device, kind, small_slabs());
    let error = new(&device, MemoryKind::Device).unwrap_err().to_string();
    assert!(error.contains("has no memory pools"), "{error}");
    let (sim, device, _) = simulated(Gpu::H200);
    let error = new(&device, MemoryKind::Pinned).unwrap_err().to_string();
    assert!(error.contains("managed memory or device memory"), "{error}");
    // A device that reports pools, but cannot create any.
    sim.fail(Fail::call("cudaMemPoolCreate").with(cudaError::cudaErrorNotSupported));
    let error = new(&device, MemoryKind::Device).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported, "{error}");
    // Nothing is left of an attempt that fails.
    for call in ["cudaMemPoolCreate", "cudaMemPoolSetAttribute"] {
        sim.fail(Fail::call(call).with(cudaError::cudaErrorInvalidValue));
        let error = new(&device, MemoryKind::Device).unwrap_err();
        assert!(
            matches!(&error, Error::Call { call: found, .. } if *found == call),
            "{error}"
        );
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
        assert_eq!(
            free_bytes(),
            free_before,
            "the memory of the pool is released"
        );
    }
    assert_eq!(calls(&sim, "cudaMemPoolCreate"), 1);
    assert_eq!(calls(&sim, "cudaMemPoolDestroy"), 0);
    // The simulator reports what is left when the runtime has ended.
    drop(device);
    assert_eq!(calls(&sim, "cudaMemPoolDestroy"), 1);
}

#[test]
fn no_other_device_reaches_memory_of_a_drivers_pool() {
    let (sim, first, on_first) = simulated_with(|builder| builder.devices(3));
    let second = first.runtime().device(1).unwrap();
    let (on_second, on_third) = {
        let third = first.runtime().device(2).unwrap();
        (
            second.create_stream().unwrap(),
            third.create_stream().unwrap(),
        )
    };
    let (pool_here, pool_there) = (pool(&first), pool(&second));
    let mut here = DeviceBuffer::from_slice_in(&pool_here, &[1u32, 2, 3]).unwrap();
    let mut there = DeviceBuffer::<u32>::zeroed_in(&pool_there, 3).unwrap();
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
    assert_eq!(
        (plain.to_vec().unwrap(), here.to_vec().unwrap()),
        (vec![9, 9, 3], vec![9, 9, 9])
    );
    assert_eq!(calls(&sim, "cudaMemcpyPeerAsync"), 3);
    // All other copies must be on the pool's device.
    on_first.copy(&here, &mut managed).unwrap();
    on_first.copy(&here, &mut pinned).unwrap();
    assert_eq!(
        (managed.host().unwrap()[0], pinned.host().unwrap()[2]),
        (9, 9)
    );
    for refused in [
        on_second.copy(&here, &mut managed),
        on_second.copy(&pinned, &mut here),
        on_third.copy(&here, &mut there),
        on_second.copy(
            &DeviceBuffer::from_slice_in(&pool_here, &[5u32; 3]).unwrap(),
            &mut here,
        ),
        here.fill_on(1, &on_second),
    ] {
        let Err(Error::DeviceMismatch {
            expected, found, ..
        }) = refused
        else {
            panic!("{refused:?}")
        };
        assert!(expected == 0 && found > 0, "{expected} {found}");
    }
    assert_eq!(here.to_vec().unwrap(), [9, 9, 9], "nothing was written");
    // Memory of `cudaMalloc` does not belong to a pool.
    on_first.copy(&pinned, &mut plain).unwrap();
    assert_eq!(plain.to_vec().unwrap(), [9, 9, 9]);
}

#[test]
fn the_free_is_enqueued_behind_every_use() {
    on_each(&[Driver], |it| {
        let second = it.device.create_stream().unwrap();
        let pool = it.pool();
        let source = pool.copy_of(&[4; 100]).unwrap();
        let mut copies = [(); 2].map(|()| DeviceBuffer::zeroed(&it.device, 100).unwrap());
        it.device.synchronize().unwrap();
        let paused = it.sim().pause();
        for (stream, copy) in [&it.stream, &second].into_iter().zip(&mut copies) {
            source.copy_to(copy, stream);
        }
        it.sim().clear_trace();
        drop(source);
        let mut order: Vec<_> = it.sim().trace().iter().map(|call| call.name).collect();
        order.retain(|name| ["cudaStreamWaitEvent", "cudaFreeAsync"].contains(name));
        let waits = "cudaStreamWaitEvent";
        assert_eq!(order, [waits, waits, "cudaFreeAsync"]);
        assert_eq!(pool.stats().live_buffers, 0, "for the pool it is gone");
        drop(paused);
        for copy in &copies {
            assert_eq!(copy.to_vec().unwrap(), [4; 100]);
        }
    });
}

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
        assert_eq!(buffer.contents(), [6; 100]);
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
            buffer.copy_to(&mut other, &it.stream);
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

#[test]
fn what_cannot_be_freed_is_leaked_and_counted() {
    let (sim, device, _) = simulated(Gpu::H200);
    sim.leaves(
        3,
        "their frees are refused, and so their pool stays",
        |leak| matches!(leak, Leak::Memory { bytes: 100, .. } | Leak::Pool),
    );
    let pool = pool(&device);
    let (lost, closed) = (
        DeviceBuffer::<u8>::uninit_in(&pool, 100).unwrap(),
        DeviceBuffer::<u8>::uninit_in(&pool, 100).unwrap(),
    );
    sim.fail(Fail::call("cudaFreeAsync"));
    drop(lost);
    assert_eq!(pool.stats().live_buffers, 2, "one is unknown to the pool");
    sim.fail(Fail::call("cudaFree"));
    assert!(matches!(
        closed.close(),
        Err(Error::Call {
            call: "cudaFree",
            ..
        })
    ));
    assert_eq!(pool.stats().live_bytes, 200);
    assert_eq!(
        DeviceBuffer::from_slice_in(&pool, &[1; 9])
            .unwrap()
            .to_vec()
            .unwrap(),
        [1; 9]
    );
    drop(pool);
}

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
    assert_eq!(
        (calls(&sim, "cudaFreeAsync"), calls(&sim, "cudaFree")),
        (1, 0),
        "a guard holds only kernels and managed memory"
    );
    drop(guard);
    drop(DeviceBuffer::<u8>::uninit_in(&pool, 1).unwrap());
    drop((pool, managed));
    no_memory_left(&sim, device.runtime());
}
