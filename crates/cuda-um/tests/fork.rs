//! Children made by `fork`: inherited objects refuse all work, and can be dropped without effects.
#![cfg(unix)]

use cuda_um::{
    Advice, Device, DeviceBuffer, ErrorKind, Location, MemoryKind, PinnedBuffer, Pool, PoolOptions,
    RegisteredBuffer, Result, Runtime, UnifiedBuffer,
    buffer::TransferOptions,
    fork::PerProcess,
    observe::{Observer, Op, Told, observe},
    resource::DeviceArena,
};
use cuda_um_sim::Gpu;
use cuda_um_testkit::child::{Over, in_child};
use cuda_um_testkit::{Add, again, calls, everything, is_child, machine, on, simulated};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

fn pools(device: &Device) -> (Pool, Pool, Pool) {
    let options = PoolOptions::default().slab_bytes(4 << 20);
    (
        Pool::new(device, MemoryKind::Managed, options).unwrap(),
        Pool::new(device, MemoryKind::Pinned, options).unwrap(),
        Pool::new(device, MemoryKind::Device, options).unwrap(),
    )
}

/// 0 if the child is refused each call, otherwise the number of the first call that it is not refused.
macro_rules! first_not_refused {
    ($($call:expr;)*) => {
        [$($call.map(drop)),*].iter().position(|result| !is_refusal(result)).map_or(0, |at| at as i32 + 1)
    };
}

fn is_refusal(result: &Result<()>) -> bool {
    match result {
        Err(error) => {
            error.kind() == ErrorKind::Forked
                && error.is_sticky()
                && error.to_string().contains("made by fork")
        }
        Ok(()) => false,
    }
}

/// Counts what it hears.
#[derive(Default)]
struct Ear(AtomicUsize);

impl Observer for Ear {
    fn before(&self, _: &Op<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn after(&self, _: &Told<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
#[allow(unsafe_code, reason = "plays another library")]
fn a_child_is_refused_all_work_and_told_why_and_tells_no_observer() {
    let (_sim, runtime) = machine();
    let (device, stream) = on(&runtime, 0);
    let (add, pools) = (Add::load(&device), pools(&device));
    let mut managed = UnifiedBuffer::from_slice(&device, &[7u32; 1000]).unwrap();
    let mut memory = DeviceBuffer::from_slice(&device, &[7u32; 1000]).unwrap();
    let mut pinned = PinnedBuffer::from_slice(&device, &[7u32; 1000]).unwrap();
    let (arena, mut back) = (DeviceArena::new(&device, 2 << 20).unwrap(), [0u32; 1000]);
    // Each pool has a free block.
    drop(UnifiedBuffer::<u32>::zeroed_in(&pools.0, 10).unwrap());
    drop(PinnedBuffer::<u32>::zeroed_in(&pools.1, 10).unwrap());
    drop(DeviceBuffer::<u32>::zeroed_in(&pools.2, 10).unwrap());
    let (shared, event) = (
        Arc::new(PinnedBuffer::<u32>::zeroed(&device, 10).unwrap()),
        stream.record().unwrap(),
    );
    static VALUE: PerProcess<AtomicBool> = PerProcess::new(AtomicBool::default);
    VALUE.get().store(true, Ordering::Relaxed);
    // So that only the fork, and no work, prevents host access to the memory.
    device.synchronize().unwrap();
    let of_its_own = || Runtime::from_table(Arc::clone(runtime.table()))?.device_count();
    let ear = Arc::new(Ear::default());
    let _observing = observe(ear.clone());
    let code = in_child(|| {
        assert!(cuda_um::fork::is_inherited());
        assert!(VALUE.get_if_made().is_none() && !VALUE.get().load(Ordering::Relaxed));
        let arguments = (&mut memory, 1000u32, 1u32);
        let refused = first_not_refused! {
            // Calls of CUDA.
            of_its_own();
            runtime.driver_version();
            device.memory_info();
            device.synchronize();
            device.create_stream();
            stream.synchronize();
            stream.is_idle();
            stream.record();
            stream.wait(&event);
            event.synchronize();
            event.is_complete();
            stream.capture(|_| Ok(()));
            managed.advise(Advice::SetReadMostly);
            managed.range_attributes();
            RegisteredBuffer::from_vec(&device, vec![1u32; 10]);
            // SAFETY: it is refused.
            unsafe { device.adopt_stream(stream.as_raw(), ()) };
            // Work.
            add.launch(&stream, 1000, arguments);
            managed.fill_on(1, &stream);
            stream.copy(&pinned, &mut managed);
            // SAFETY: it is refused.
            unsafe { stream.enqueue_foreign((&managed,), |_| ()) };
            shared.export(&stream);
            managed.prefetch_on(&device, &stream);
            managed.prefetch_on(Location::Host, &stream);
            // Access by the host.
            managed.host();
            managed.host_mut();
            managed.try_host();
            pinned.host();
            pinned.try_host_mut();
            pollster::block_on(managed.host_async());
            managed.to_vec();
            pinned.to_vec();
            memory.copy_to_host(&mut back);
            pinned.copy_from_host(&back);
            pollster::block_on(managed.copy_from_host_async(&back));
            pinned.host_overwrite(.., |_, slots| slots.fill_with(|_| 1));
            // Blocks of pools.
            UnifiedBuffer::<u32>::zeroed(&device, 0);
            UnifiedBuffer::<u32>::zeroed(&device, 10);
            PinnedBuffer::<u32>::zeroed(&device, 10);
            UnifiedBuffer::<u32>::zeroed_in(&pools.0, 10);
            PinnedBuffer::<u32>::zeroed_in(&pools.1, 10);
            DeviceBuffer::<u32>::zeroed_in(&pools.2, 10);
            arena.place::<u32>(0, 10);
        };
        match ear.0.load(Ordering::Relaxed) {
            0 => refused,
            _ => 100,
        }
    });
    assert_eq!(
        code, 0,
        "the call with this number was not refused, or 100: an observer heard of one"
    );
    assert!(VALUE.get().load(Ordering::Relaxed));
    assert!(managed.host().unwrap().iter().all(|&value| value == 7));
    add.run(&stream, &mut managed, 1000, 1);
    assert_eq!(managed.host().unwrap()[999], 8);
}

#[test]
fn drops_in_a_child_do_nothing_and_the_parent_frees_once() {
    let (sim, device, stream) = simulated(Gpu::H200);
    let runtime = device.runtime().clone();
    let mut kept = UnifiedBuffer::from_slice(&device, &[5u32; 10_000]).unwrap();
    // Work for which the child's drops must not wait.
    let paused = sim.pause();
    kept.fill_on(6, &stream).unwrap();
    drop(paused);
    let all = everything(&device);
    let paused = sim.pause();
    let mut inherited = Some((all, device.clone(), stream.clone(), kept));
    let code = in_child(|| {
        // The child's copies of the handles; the parent's handles do not change.
        drop(inherited.take());
        0
    });
    assert_eq!(code, 0);
    drop(paused);
    let Some((all, _, _, mut kept)) = inherited.take() else {
        unreachable!("the parent's")
    };
    kept.fill_on(6, &stream).unwrap();
    assert_eq!(kept.host().unwrap()[9_999], 6);
    drop((all, kept, stream));
    runtime.reclaim().unwrap();
    drop((device, runtime));
    // The simulator compares leaks and misuse when it is dropped.
    assert!(calls(&sim, "cudaFree") > 0);
}

#[test]
fn a_child_may_end_by_exit() {
    if !is_child() {
        // In a process without other tests, because `exit` takes locks that another thread may hold at the time of the fork.
        let status = again("a_child_may_end_by_exit").status().unwrap();
        return assert!(status.success(), "{status}");
    }
    let (sim, device, stream) = simulated(Gpu::H200);
    let mut all = Some((everything(&device), device.clone(), stream));
    // A thread of the parent is in a call meanwhile, and the child's end does not wait for it.
    let paused = sim.pause();
    let other = device.create_stream().unwrap();
    let mut used = DeviceBuffer::<u32>::zeroed(&device, 10).unwrap();
    used.fill_on(1, &other).unwrap();
    let (waits, is_waiting) = channel();
    sim.on_wait(move |_| waits.send(()).unwrap());
    std::thread::scope(|scope| {
        scope.spawn(|| other.synchronize().unwrap());
        is_waiting.recv().unwrap();
        // A wait would take a second each time.
        let is_quick = (0..3).any(|_| {
            let start = Instant::now();
            let code = in_child(|| {
                drop(all.take());
                std::process::exit(7)
            });
            assert_eq!(code, 7, "handlers of exit ran and did not hang");
            start.elapsed() < Duration::from_secs(1)
        });
        assert!(is_quick);
        drop(paused);
    });
    sim.on_wait(|_| ());
}

/// For the end of a capture, for a turn at the gate, and for the ring of a copy.
#[test]
fn waits_for_threads_that_a_child_does_not_have_end() {
    let (_sim, device, stream) = simulated(Gpu::NoConcurrentAccess);
    let (runtime, other) = (device.runtime(), device.create_stream().unwrap());
    device.set_transfer_options(TransferOptions::default().threads(1));
    let managed = UnifiedBuffer::<u32>::zeroed(&device, 1000).unwrap();
    let mut used = UnifiedBuffer::<u32>::zeroed(&device, 1000).unwrap();
    let [mut filled, mut copied] =
        [(); 2].map(|()| DeviceBuffer::<u8>::zeroed(&device, 32 << 20).unwrap());
    let source = vec![1u8; 32 << 20];
    device.synchronize().unwrap();
    let is_over = AtomicBool::new(false);
    let (at_it, is_at_it) = channel();
    let stays = || {
        at_it.send(()).unwrap();
        while !is_over.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let _over = Over(&is_over);
        let captures = scope.spawn(|| stream.capture(|_| stays()).map(drop));
        is_at_it.recv().unwrap();
        #[allow(unsafe_code, reason = "work of another library that takes long")]
        // SAFETY: the closure enqueues nothing.
        let works = scope.spawn(|| unsafe { other.enqueue_foreign((&mut used,), |_| stays()) }?);
        is_at_it.recv().unwrap();
        let fills = scope.spawn(|| {
            filled.host_overwrite(.., |first, slots| {
                if first == 0 {
                    stays().unwrap();
                }
                slots.fill_with(|_| 1)
            })
        });
        is_at_it.recv().unwrap();
        let code = in_child(|| {
            runtime.reclaim().unwrap();
            first_not_refused! {
                device.synchronize();
                other.capture(|_| Ok(()));
                managed.host();
                managed.try_host();
                copied.copy_from_host(&source);
            }
        });
        assert_eq!(code, 0, "the call with this number was not refused");
        is_over.store(true, Ordering::Relaxed);
        for thread in [captures, works, fills] {
            thread.join().unwrap().unwrap();
        }
    });
}

#[test]
fn locks_of_threads_that_a_child_does_not_have_hold_nobody_up() {
    let (_sim, runtime) = machine();
    let (device, stream) = on(&runtime, 0);
    if !cuda_um_testkit::is_concurrent(&device) {
        return;
    }
    let (unified, pinned, on_device) = pools(&device);
    let kept = UnifiedBuffer::<u32>::zeroed(&device, 3000).unwrap();
    let is_over = AtomicBool::new(false);
    let goes_on = || !is_over.load(Ordering::Relaxed);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let stream = device.create_stream().unwrap();
                while goes_on() {
                    let mut buffer = UnifiedBuffer::<u32>::zeroed_in(&unified, 3000).unwrap();
                    buffer.fill_on(1, &stream).unwrap();
                    drop(PinnedBuffer::from_slice_in(&pinned, &[1u32; 3000]).unwrap());
                    drop(DeviceBuffer::<u32>::zeroed_in(&on_device, 3000).unwrap());
                    let mut buffer = DeviceBuffer::<u32>::zeroed(&device, 3000).unwrap();
                    buffer.fill_on(1, &stream).unwrap();
                    drop(buffer);
                    unified.trim();
                    // Otherwise work accumulates.
                    device.synchronize().unwrap();
                }
            });
        }
        let _over = Over(&is_over);
        for round in 0..30 {
            let of_pools = (
                UnifiedBuffer::from_slice_in(&unified, &[round; 3000]).unwrap(),
                PinnedBuffer::from_slice_in(&pinned, &[round; 3000]).unwrap(),
                DeviceBuffer::from_slice_in(&on_device, &[round; 3000]).unwrap(),
            );
            let mut buffers = Some((of_pools, PinnedBuffer::<u32>::zeroed(&device, 30).unwrap()));
            let code = in_child(|| {
                drop(buffers.take());
                first_not_refused! {
                    kept.host();
                    kept.prefetch_on(&device, &stream);
                    UnifiedBuffer::<u32>::zeroed_in(&unified, 30);
                    stream.synchronize();
                }
            });
            let ((unified, ..), _) = buffers.as_ref().unwrap();
            let is_kept = unified.host().unwrap().iter().all(|&value| value == round);
            assert_eq!((code, is_kept), (0, true), "round {round}");
        }
    });
}
