//! Calls that wait at the gate, and those that must not.

use super::eventually;
use cuda_um::{
    Device, DeviceBuffer, Error, MemoryKind, NonConcurrentAccess, Pool, PoolOptions, Stream,
    UnifiedBuffer, buffer::TransferOptions,
};
use cuda_um_sim::{Fail, Gpu, PauseGuard};
use cuda_um_testkit::watchdog::watch;
use cuda_um_testkit::{Add, Checked, calls, simulated};
use std::time::Duration;

#[test]
fn host_async_is_ready_after_a_stream_with_work_has_gone() {
    // The stream's work could no longer be queried, so the future retried forever.
    let (_sim, device, stream) = simulated(Gpu::NoConcurrentAccess);
    let buffer = UnifiedBuffer::from_slice(&device, &[5u32; 100]).unwrap();
    let mut gone = UnifiedBuffer::<u32>::zeroed(&device, 100).unwrap();
    // Not a kernel, because its module would keep the stream alive.
    gone.fill_on(1, &stream).unwrap();
    drop((gone, stream));
    device.runtime().reclaim().unwrap();
    assert_eq!(pollster::block_on(buffer.host_async()).unwrap()[0], 5);
    assert!(buffer.try_host().is_ok());
}

/// A paused simulator, a buffer without work, one whose only tracked work is on `last`, and the stream of its work before.
struct Paused {
    paused: PauseGuard,
    other: UnifiedBuffer<u32>,
    used: UnifiedBuffer<u32>,
    gone: Stream,
}

fn paused_with_work(sim: &Checked, device: &Device, last: &Stream) -> Paused {
    let other = UnifiedBuffer::from_slice(device, &[5u32; 100]).unwrap();
    let mut used = UnifiedBuffer::<u32>::zeroed(device, 100).unwrap();
    device.synchronize().unwrap();
    let paused = sim.pause();
    let gone = device.create_stream().unwrap();
    used.fill_on(1, &gone).unwrap();
    used.fill_on(2, last).unwrap();
    Paused {
        paused,
        other,
        used,
        gone,
    }
}

#[test]
fn try_host_needs_no_wait_after_a_stream_with_work_has_gone() {
    // It returned "busy" until a wait, because the work of a destroyed stream could no longer be queried.
    let (sim, device, stream) = simulated(Gpu::NoConcurrentAccess);
    let Paused {
        paused,
        other,
        used,
        gone,
    } = paused_with_work(&sim, &device, &stream);
    drop(gone);
    let destroyed = calls(&sim, "cudaStreamDestroy");
    assert_eq!(destroyed, 1, "with its work still to come");
    assert!(matches!(other.try_host(), Err(Error::Busy { .. })));
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
    assert!(sim.misuse().is_empty(), "{:?}", sim.misuse());
}

#[test]
fn try_host_asks_for_the_work_of_streams_that_live() {
    let (sim, device, stream) = simulated(Gpu::NoConcurrentAccess);
    let add = Add::load(&device);
    let other = UnifiedBuffer::from_slice(&device, &[5u32; 100]).unwrap();
    let mut used = UnifiedBuffer::<u32>::zeroed(&device, 100).unwrap();
    add.launch(&stream, 100, (&mut used, 100u32, 3u32)).unwrap();
    assert_eq!(eventually(|| other.try_host().map(|guard| guard[99])), 5);
    assert_eq!(eventually(|| used.try_host().map(|guard| guard[99])), 3);
    assert_eq!(calls(&sim, "cudaDeviceSynchronize"), 0);
    assert!(sim.misuse().is_empty(), "{:?}", sim.misuse());
}

#[test]
fn a_stream_that_leaves_no_event_is_asked_itself() {
    // It was "busy" until a wait: a loop that only calls `try_host` never ended.
    let (sim, device, stream) = simulated(Gpu::NoConcurrentAccess);
    let Paused {
        paused,
        other,
        gone,
        used: _used,
    } = paused_with_work(&sim, &device, &stream);
    sim.fail(Fail::call("cudaEventCreateWithFlags"));
    drop(gone);
    assert_eq!(calls(&sim, "cudaStreamDestroy"), 0, "it is left");
    assert!(matches!(other.try_host(), Err(Error::Busy { .. })));
    drop(paused);
    assert_eq!(eventually(|| other.try_host().map(|guard| guard[99])), 5);
    assert_eq!(calls(&sim, "cudaDeviceSynchronize"), 1, "before");
    device.synchronize().unwrap();
    assert_eq!(calls(&sim, "cudaStreamDestroy"), 1, "nothing to ask for");
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

#[test]
fn nothing_that_must_not_wait_waits_for_a_copy_of_another_thread() {
    // They waited for the gate's lock, which the copy held.
    let (sim, device, _stream) = simulated(Gpu::NoConcurrentAccess);
    let _watchdog = watch();
    let source = UnifiedBuffer::from_slice(&device, &vec![1u8; 1 << 20]).unwrap();
    let managed = UnifiedBuffer::<u32>::zeroed(&device, 10).unwrap();
    let pool = Pool::new(&device, MemoryKind::Device, PoolOptions::default()).unwrap();
    let pooled = DeviceBuffer::<u32>::zeroed_in(&pool, 1000).unwrap();
    let (own, stream) = (
        device.create_stream().unwrap(),
        device.create_stream().unwrap(),
    );
    let mut other = DeviceBuffer::<u32>::zeroed(&device, 10).unwrap();
    device.synchronize().unwrap();
    while_a_copy_is_held(&sim, &source, || {
        assert!(matches!(managed.try_host(), Err(Error::Busy { .. })));
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
fn work_that_waits_long_tells_why_and_goes_on() {
    let (_sim, device, stream) = simulated(Gpu::NoConcurrentAccess);
    device.set_non_concurrent_access(NonConcurrentAccess::Wait);
    let add = Add::load(&device);
    let weights = UnifiedBuffer::<u32>::zeroed(&device, 100).unwrap();
    let mut used = UnifiedBuffer::<u32>::zeroed(&device, 100).unwrap();
    let guard = weights.host().unwrap();
    std::thread::scope(|scope| {
        let launched = scope.spawn(|| add.launch(&stream, 100, (&mut used, 100u32, 1u32)));
        std::thread::sleep(Duration::from_millis(2_200));
        assert!(!launched.is_finished());
        drop(guard);
        launched.join().unwrap().unwrap();
    });
    assert_eq!(used.host().unwrap()[99], 1);
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
            scope.spawn(|| add.launch(&stream, 100, (&mut used, 100u32, 1u32)).unwrap());
            std::thread::sleep(Duration::from_millis(100));
            assert_eq!(launches(), before, "beside a guard");
            drop(guard);
            let _guard = weights.host().unwrap();
            launches() > before
        })
    });
    assert!(comes_first);
}
