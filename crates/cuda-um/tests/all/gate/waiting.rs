//! Calls that wait at the gate, and those that must not.

use super::eventually;
use cuda_um::{
    DeviceBuffer, Error, MemoryKind, NonConcurrentAccess, Pool, PoolOptions, UnifiedBuffer,
    buffer::TransferOptions,
};
use cuda_um_sim::{Fail, Gpu};
use cuda_um_testkit::watchdog::watch;
use cuda_um_testkit::{Add, Checked, calls, fails, simulated};
use std::time::Duration;

/// claim 36: A stream went with work to come, and a buffer's only tracked work is behind that: queries tell when all of it is done. A stream that leaves no
/// event is asked itself.
#[test]
fn try_host_needs_no_wait_after_a_stream_with_work_has_gone() {
    for leaves_event in [true, false] {
        let (sim, device, stream) = simulated(Gpu::NoConcurrentAccess);
        let other = UnifiedBuffer::from_slice(&device, &[5u32; 100]).unwrap();
        let mut used = UnifiedBuffer::<u32>::zeroed(&device, 100).unwrap();
        device.synchronize().unwrap();
        let paused = sim.pause();
        let gone = device.create_stream().unwrap();
        used.fill_on(1, &gone).unwrap();
        used.fill_on(2, &stream).unwrap();
        if !leaves_event {
            sim.fail(Fail::call("cudaEventCreateWithFlags"));
        }
        drop(gone);
        assert_eq!(calls(&sim, "cudaStreamDestroy"), usize::from(leaves_event));
        fails!(other.try_host(), Error::Busy { .. });
        drop(paused);
        let waits = [
            "cudaDeviceSynchronize",
            "cudaStreamSynchronize",
            "cudaEventSynchronize",
        ];
        let waited = || waits.map(|wait| calls(&sim, wait));
        let before = waited();
        assert_eq!(eventually(|| other.try_host().map(|guard| guard[99])), 5);
        assert_eq!(eventually(|| used.try_host().map(|guard| guard[99])), 2);
        assert_eq!(waited(), before, "asking is enough");
        device.synchronize().unwrap();
        assert_eq!(calls(&sim, "cudaStreamDestroy"), 1, "nothing to ask for");
    }
}

/// Holds the device, and a copy to the host on another thread, while `body` runs.
fn while_a_copy_is_held(sim: &Checked, source: &UnifiedBuffer<u8>, body: impl FnOnce()) {
    // So little that the first copy is staged as well.
    let ring = TransferOptions::default().threads(1).ring_bytes(512 << 10);
    source.device().set_transfer_options(ring);
    let enqueued = || calls(sim, "cudaMemcpyAsync");
    let before = enqueued();
    let paused = sim.pause();
    std::thread::scope(|scope| {
        scope.spawn(|| source.copy_to_host(&mut vec![0; source.len()]).unwrap());
        while enqueued() == before {
            std::thread::yield_now();
        }
        body();
        drop(paused);
    });
}

/// claim 35
#[test]
fn nothing_that_must_not_wait_waits_for_a_copy_of_another_thread() {
    // They waited for the gate's lock, which the copy held.
    let (sim, device, _stream) = simulated(Gpu::NoConcurrentAccess);
    let _watchdog = watch();
    let source = UnifiedBuffer::from_slice(&device, &vec![1u8; 1 << 20]).unwrap();
    let managed = UnifiedBuffer::<u32>::zeroed(&device, 10).unwrap();
    let pool = Pool::new(&device, MemoryKind::Device, PoolOptions::default()).unwrap();
    let pooled = DeviceBuffer::<u32>::zeroed_in(&pool, 1000).unwrap();
    let [own, stream] = [(); 2].map(|()| device.create_stream().unwrap());
    let mut other = DeviceBuffer::<u32>::zeroed(&device, 10).unwrap();
    device.synchronize().unwrap();
    while_a_copy_is_held(&sim, &source, || {
        fails!(managed.try_host(), Error::Busy { .. });
        {
            let mut future = Box::pin(managed.host_async());
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            assert!(future.as_mut().poll(&mut context).is_pending());
        }
        drop(pooled);
        other.fill_on(1, &own).unwrap();
        drop((other, own, stream));
    });
    assert_eq!(managed.host().unwrap()[0], 0);
}

/// claim 6
#[test]
fn a_host_guard_waits_for_what_is_being_enqueued() {
    let (sim, device, stream) = simulated(Gpu::NoConcurrentAccess);
    let _watchdog = watch();
    let add = Add::load(&device);
    let source = UnifiedBuffer::from_slice(&device, &vec![1u8; 1 << 20]).unwrap();
    let managed = UnifiedBuffer::from_slice(&device, &[5u32; 10]).unwrap();
    let mut other = DeviceBuffer::<u32>::zeroed(&device, 10).unwrap();
    device.synchronize().unwrap();
    std::thread::scope(|scope| {
        let mut guarded = None;
        while_a_copy_is_held(&sim, &source, || {
            guarded = Some(scope.spawn(|| managed.host().unwrap()[9]));
            // From the time when nothing else can be enqueued, the guard is being created.
            while add.launch(&stream, 10, (&mut other, 10u32, 1u32)).is_ok() {
                std::thread::yield_now();
            }
            assert!(!guarded.as_ref().unwrap().is_finished(), "beside a copy");
        });
        assert_eq!(guarded.unwrap().join().unwrap(), 5);
    });
    other.fill_on(1, &stream).unwrap();
}

#[test]
fn a_guard_comes_after_work_that_waited_for_the_last_one() {
    let (sim, device, stream) = simulated(Gpu::NoConcurrentAccess);
    let _watchdog = watch();
    device.set_non_concurrent_access(NonConcurrentAccess::Wait);
    let add = Add::load(&device);
    let weights = UnifiedBuffer::<u32>::zeroed(&device, 100).unwrap();
    let mut used = DeviceBuffer::<u32>::zeroed(&device, 100).unwrap();
    let launches = || calls(&sim, "cuLaunchKernel");
    // On a busy machine the thread may come to the gate only after the second guard.
    let comes_first = (0..5).any(|_| {
        let (before, guard) = (launches(), weights.host().unwrap());
        std::thread::scope(|scope| {
            scope.spawn(|| add.run(&stream, &mut used, 100, 1));
            std::thread::sleep(Duration::from_millis(100));
            assert_eq!(launches(), before, "beside a guard");
            drop(guard);
            let _guard = weights.host().unwrap();
            launches() > before
        })
    });
    assert!(comes_first);
}
