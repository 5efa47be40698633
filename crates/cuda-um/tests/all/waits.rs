//! No wait is endless: not for buffers that other threads continue to add.

use cuda_um::{Device, DeviceBuffer, Error, MemoryKind, Pool, PoolOptions, UnifiedBuffer};
use cuda_um_sim::Gpu;
use cuda_um_testkit::simulated;
use cuda_um_testkit::watchdog::watch;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Runs threads that allocate, use and drop, until this ends.
fn while_others_are_busy(device: &Device, body: impl FnOnce()) {
    struct Over<'a>(&'a AtomicBool);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let (is_over, rounds) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let stream = device.create_stream().unwrap();
                let mut events = VecDeque::new();
                while !is_over.load(Ordering::Relaxed) {
                    let mut buffer = DeviceBuffer::<u8>::zeroed(device, 256 << 10).unwrap();
                    buffer.fill_on(1, &stream).unwrap();
                    drop(buffer);
                    events.push_back(stream.record().unwrap());
                    // The stream always has some work left, but a limited amount.
                    if events.len() > 8 {
                        let earlier = events.pop_front();
                        earlier
                            .iter()
                            .for_each(|event| event.synchronize().unwrap());
                    }
                    rounds.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let _over = Over(&is_over);
        while rounds.load(Ordering::Relaxed) < 20 {
            std::thread::yield_now();
        }
        body();
    });
}

/// claim 32
#[test]
fn an_allocation_that_cannot_be_is_refused_while_others_drop_what_is_in_use() {
    let (_sim, device, _) = simulated(Gpu::H200);
    let _watchdog = watch();
    let total = device.memory_info().unwrap().total_bytes;
    while_others_are_busy(&device, || {
        let refused = DeviceBuffer::<u8>::uninit(&device, total * 2).map(drop);
        assert!(matches!(refused, Err(Error::OutOfMemory { .. })));
        let options = PoolOptions::default().limit_bytes(4 << 20);
        let pool = Pool::new(&device, MemoryKind::Managed, options).unwrap();
        let refused = UnifiedBuffer::<u8>::uninit_in(&pool, 8 << 20).map(drop);
        assert!(matches!(refused, Err(Error::OutOfMemory { .. })));
        let pool = Pool::new(&device, MemoryKind::Device, PoolOptions::default()).unwrap();
        let refused = DeviceBuffer::<u8>::uninit_in(&pool, total * 2).map(drop);
        assert!(matches!(refused, Err(Error::OutOfMemory { .. })));
    });
}

/// claim 32
#[test]
fn reclaim_returns_while_others_drop_what_is_in_use() {
    let (_sim, device, _) = simulated(Gpu::H200);
    let _watchdog = watch();
    while_others_are_busy(&device, || device.runtime().reclaim().unwrap());
}
