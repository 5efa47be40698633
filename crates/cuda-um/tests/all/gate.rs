//! A device without concurrent managed access: host accesses and device work exclude each other.

mod waiting;

use cuda_um::{
    Advice, DeviceBuffer, Error, Location, NonConcurrentAccess, PinnedBuffer, Placement,
    UnifiedBuffer, UnifiedOptions,
};
use cuda_um_sim::{Fail, Gpu, Sim};
use cuda_um_testkit::watchdog::watch;
use cuda_um_testkit::{Add, Checked, calls, open, simulated};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

#[test]
fn guards_hold_launches_off_and_wait_for_the_whole_device() {
    let (sim, device, stream) = simulated(Gpu::NoConcurrentAccess);
    let add = Add::load(&device);
    let mut used = UnifiedBuffer::<u32>::zeroed(&device, 100).unwrap();
    let other = UnifiedBuffer::from_slice(&device, &[5u32; 100]).unwrap();
    let mut memory = DeviceBuffer::<u32>::zeroed(&device, 100).unwrap();

    let guard = other.host().unwrap();
    for error in [
        add.launch(&stream, 100, (&mut used, 100u32, 1u32))
            .unwrap_err(),
        add.launch(&stream, 100, (&mut memory, 100u32, 1u32))
            .unwrap_err(),
        stream.copy(&used, &mut memory).unwrap_err(),
    ] {
        assert!(matches!(error, Error::Busy { .. }), "{error}");
        assert!(
            error.to_string().contains("no concurrent managed access"),
            "{error}"
        );
    }
    let second = used.host().unwrap();
    drop(guard);
    assert!(used.try_host().is_ok(), "guards live beside each other");
    drop(second);

    let paused = sim.pause();
    add.launch(&stream, 100, (&mut used, 100u32, 3u32)).unwrap();
    let error = other.try_host().map(|guard| guard[0]).unwrap_err();
    assert!(
        matches!(error, Error::Busy { .. }),
        "any managed memory is out of reach while a kernel runs: {error}"
    );
    let resume = std::thread::spawn(move || drop(paused));
    assert_eq!(other.host().unwrap()[0], 5);
    resume.join().unwrap();
    assert_eq!(used.host().unwrap()[0], 3);
    add.launch(&stream, 100, (&mut used, 100u32, 3u32)).unwrap();
    assert_eq!(pollster::block_on(used.host_async()).unwrap()[0], 6);
    assert!(sim.misuse().is_empty(), "{:?}", sim.misuse());
}

#[test]
fn every_runtime_over_the_driver_shares_the_gate() {
    let (sim, device, _) = simulated(Gpu::NoConcurrentAccess);
    let again = open(&sim).device(0).unwrap();
    let buffer = UnifiedBuffer::<u32>::zeroed(&device, 100).unwrap();
    let mut foreign = UnifiedBuffer::<u32>::zeroed(&again, 100).unwrap();
    let guard = buffer.host().unwrap();
    let (add, stream) = (Add::load(&again), again.create_stream().unwrap());
    let refused = add.launch(&stream, 100, (&mut foreign, 100u32, 1u32));
    assert!(matches!(refused, Err(Error::Busy { .. })), "{refused:?}");
    drop(guard);
    add.launch(&stream, 100, (&mut foreign, 100u32, 1u32))
        .unwrap();
}

#[test]
fn a_failed_look_up_of_the_driver_makes_no_second_gate() {
    let builder = Sim::builder().gpu(Gpu::NoConcurrentAccess);
    let sim = Checked::new(builder.build().unwrap());
    let (first, second) = (open(&sim), open(&sim));
    sim.fail(Fail::call("cudaGetDriverEntryPoint"));
    let error = first.device_count().unwrap_err();
    assert!(matches!(error, Error::Load(_)), "{error}");
    // The failure is not stored.
    let (device, again) = (first.device(0).unwrap(), second.device(0).unwrap());
    let buffer = UnifiedBuffer::<u32>::zeroed(&device, 100).unwrap();
    let mut foreign = UnifiedBuffer::<u32>::zeroed(&again, 100).unwrap();
    let (add, stream) = (Add::load(&again), again.create_stream().unwrap());
    let guard = buffer.host().unwrap();
    let refused = add.launch(&stream, 100, (&mut foreign, 100u32, 1u32));
    assert!(matches!(refused, Err(Error::Busy { .. })), "{refused:?}");
    drop(guard);
    add.launch(&stream, 100, (&mut foreign, 100u32, 1u32))
        .unwrap();
}

#[test]
fn a_forgotten_guard_refuses_launches_for_good() {
    let (_sim, device, stream) = simulated(Gpu::NoConcurrentAccess);
    let add = Add::load(&device);
    let mut buffer = UnifiedBuffer::<u32>::zeroed(&device, 100).unwrap();
    std::mem::forget(buffer.host().unwrap());
    let refused = add.launch(&stream, 100, (&mut buffer, 100u32, 1u32));
    assert!(matches!(refused, Err(Error::Busy { .. })), "{refused:?}");
    assert_eq!(buffer.host().unwrap()[0], 0, "the host still may");
}

#[test]
fn pinned_memory_takes_no_turns() {
    let (_sim, device, stream) = simulated(Gpu::NoConcurrentAccess);
    let add = Add::load(&device);
    let idle = PinnedBuffer::from_slice(&device, &[1u32; 100]).unwrap();
    let mut used = PinnedBuffer::<u32>::zeroed(&device, 100).unwrap();
    let guard = idle.host().unwrap();
    add.launch(&stream, 100, (&mut used, 100u32, 2u32)).unwrap();
    assert_eq!((guard[0], used.host().unwrap()[0]), (1, 2));
}

#[test]
fn there_is_no_prefetch_and_says_why() {
    let (_sim, device, stream) = simulated(Gpu::NoConcurrentAccess);
    let buffer = UnifiedBuffer::<u32>::zeroed(&device, 100).unwrap();
    for outcome in [
        buffer.prefetch_on(&device, &stream),
        buffer.prefetch_on(Location::Host, &stream),
        buffer.advise(Advice::SetPreferredLocation(Location::from(&device))),
    ] {
        let error = outcome.unwrap().require().unwrap_err();
        assert!(matches!(error, Error::NotSupported { .. }), "{error}");
        assert!(
            error.to_string().contains("concurrentManagedAccess"),
            "{error}"
        );
    }
}

#[test]
fn a_future_that_was_given_up_leaves_the_gate_open() {
    let (sim, device, stream) = simulated(Gpu::NoConcurrentAccess);
    let mut buffer = UnifiedBuffer::<u8>::zeroed(&device, 4096).unwrap();
    device.synchronize().unwrap();
    let paused = sim.pause();
    buffer.fill_on(1, &stream).unwrap();
    {
        let mut future = Box::pin(buffer.host_async());
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(future.as_mut().poll(&mut context).is_pending());
        // If its helper thread exists, it is waiting by now.
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    buffer.fill_on(2, &stream).unwrap();
    drop(paused);
    assert_eq!(buffer.host().unwrap()[0], 2);
}

#[test]
fn beside_guards_the_host_allocates_fills_and_copies() {
    let (sim, device, stream) = simulated(Gpu::NoConcurrentAccess);
    let a = UnifiedBuffer::from_slice(&device, &[1.0f32; 1000]).unwrap();
    let b = UnifiedBuffer::from_slice(&device, &[2.0f32; 1000]).unwrap();
    let mut on_device = DeviceBuffer::<f32>::zeroed(&device, 1000).unwrap();
    device.synchronize().unwrap();
    let (a, b) = (a.host().unwrap(), b.host().unwrap());
    let enqueued = calls(&sim, "cudaMemcpyAsync") + calls(&sim, "cudaMemsetAsync");
    let mut c = UnifiedBuffer::<f32>::zeroed(&device, 1000).unwrap();
    c.host_mut().unwrap()[0] = a[0] + b[0];
    assert_eq!(c.host().unwrap()[..2], [3.0, 0.0]);
    c.fill_on(0.25, &stream).unwrap();
    let copy = UnifiedBuffer::from_slice(&device, &b).unwrap();
    let mut back = [0.0; 1000];
    c.copy_to_host(&mut back).unwrap();
    assert_eq!((back[999], copy.host().unwrap()[999]), (0.25, 2.0));
    let after = calls(&sim, "cudaMemcpyAsync") + calls(&sim, "cudaMemsetAsync");
    assert_eq!(after, enqueued, "the device has no part in it");

    // Without managed memory and without a kernel, the device has its part.
    on_device.copy_from_host(&a).unwrap();
    on_device.copy_to_host(&mut back).unwrap();
    assert_eq!(back[999], 1.0);
    on_device.fill_on(7.0, &stream).unwrap();
    let other = DeviceBuffer::from_slice(&device, &back).unwrap();
    stream.copy(&other, &mut on_device).unwrap();
    on_device.copy_to_host(&mut c.host_mut().unwrap()).unwrap();
    assert_eq!(c.host().unwrap()[999], 1.0);
    assert!(sim.misuse().is_empty(), "{:?}", sim.misuse());
}

#[test]
fn cuda_gets_no_managed_memory_of_guards() {
    // While CUDA copies managed memory, the host may not access it, and another guard of it may live.
    let (sim, device, _) = simulated(Gpu::NoConcurrentAccess);
    let buffer = UnifiedBuffer::from_slice(&device, &[1u8; 4 << 20]).unwrap();
    let mut on_device = DeviceBuffer::<u8>::zeroed(&device, 4 << 20).unwrap();
    let guard = buffer.host().unwrap();
    let mut buffer = UnifiedBuffer::<u8>::zeroed(&device, 4 << 20).unwrap();
    let mut target = buffer.host_mut().unwrap();
    let (mut pageable, mut copied) = (guard.to_vec(), Vec::new());
    let mut count = |copy: &mut dyn FnMut()| {
        let before = calls(&sim, "cudaMemcpyAsync");
        copy();
        copied.push(calls(&sim, "cudaMemcpyAsync") - before);
    };
    count(&mut || on_device.copy_from_host(&pageable).unwrap());
    count(&mut || on_device.copy_from_host(&guard).unwrap());
    count(&mut || on_device.copy_to_host(&mut pageable).unwrap());
    count(&mut || on_device.copy_to_host(&mut target).unwrap());
    let [from, guarded_from, to, guarded_to] = copied[..] else {
        panic!("{copied:?}")
    };
    // Ordinary memory goes through pinned memory, in pieces.
    assert!(from > 1, "{copied:?}");
    assert_eq!((guarded_from, guarded_to), (from, to));
    assert!(target.iter().all(|byte| *byte == 1));
}

#[test]
fn allocations_of_a_thread_wait_for_guards_of_another_or_need_not() {
    for access in [
        NonConcurrentAccess::Refuse,
        NonConcurrentAccess::Wait,
        NonConcurrentAccess::Mapped,
    ] {
        let (sim, device, stream) = simulated(Gpu::NoConcurrentAccess);
        let _watchdog = watch();
        device.set_non_concurrent_access(access);
        assert_eq!(device.non_concurrent_access(), access);
        let add = Add::load(&device);
        let weights = UnifiedBuffer::from_slice(&device, &[5u32; 100]).unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let guard = weights.host().unwrap();
                    assert_eq!(guard[99], 5);
                    std::thread::yield_now();
                }
            });
            for index in 0..2000 {
                let mut made = UnifiedBuffer::from_slice(&device, &[index; 100]).unwrap();
                made.fill_on(index + 1, &stream).unwrap();
                if access != NonConcurrentAccess::Refuse {
                    add.launch(&stream, 100, (&mut made, 100u32, 1u32)).unwrap();
                }
            }
            done.store(true, Ordering::Relaxed);
        });
        assert!(sim.misuse().is_empty(), "{:?}", sim.misuse());
    }
}

#[test]
fn a_thread_does_not_wait_for_its_own_guards_and_is_told_which() {
    let (_sim, device, stream) = simulated(Gpu::NoConcurrentAccess);
    device.set_non_concurrent_access(NonConcurrentAccess::Wait);
    let add = Add::load(&device);
    let mut weights = UnifiedBuffer::<u32>::zeroed(&device, 100).unwrap();
    let mut used = UnifiedBuffer::<u32>::zeroed(&device, 100).unwrap();
    let mut refusal = |weights: &UnifiedBuffer<u32>| {
        let _guard = weights.host().unwrap();
        let launched = add.launch(&stream, 100, (&mut used, 100u32, 1u32));
        launched.unwrap_err().to_string()
    };
    let unnamed = refusal(&weights);
    let wanted = [
        "device 0, which has no concurrent managed access, is busy: this thread has 1 of the 1 host guard(s)",
        "(UnifiedBuffer<u32>[100] of crates/cuda-um/tests/all/gate.rs:",
        "drop them before the call, or use mapped memory (NonConcurrentAccess::Mapped)",
    ];
    for wanted in wanted {
        assert!(unnamed.contains(wanted), "{unnamed}");
    }
    weights.set_name("weights");
    let named = refusal(&weights);
    assert!(named.contains("`weights`"), "{named}");

    device.set_non_concurrent_access(NonConcurrentAccess::Refuse);
    let held = weights.host().unwrap();
    let other = std::thread::scope(|scope| {
        let other = scope.spawn(|| add.launch(&stream, 100, (&mut used, 100u32, 1u32)));
        other.join().unwrap().unwrap_err().to_string()
    });
    drop(held);
    assert!(
        other.contains("live on other threads") && other.contains("NonConcurrentAccess::Wait"),
        "{other}"
    );
}

#[test]
fn mapped_memory_has_no_such_rule() {
    let (sim, device, stream) = simulated(Gpu::NoConcurrentAccess);
    device.set_non_concurrent_access(NonConcurrentAccess::Mapped);
    let add = Add::load(&device);
    let a = UnifiedBuffer::from_slice(&device, &[1u32; 100]).unwrap();
    let mut c = UnifiedBuffer::<u32>::zeroed(&device, 100).unwrap();
    assert!(!a.is_managed() && a.placement().reason.contains("NonConcurrentAccess::Mapped"));
    let guard = a.host().unwrap();
    add.launch(&stream, 100, (&mut c, 100u32, 2u32)).unwrap();
    assert_eq!((guard[0], c.host().unwrap()[99]), (1, 2));
    let asked = UnifiedOptions::default().placement(Placement::Managed);
    let managed = UnifiedBuffer::<u32>::zeroed_with(&device, 100, asked).unwrap();
    assert!(managed.is_managed());
    assert!(sim.misuse().is_empty(), "{:?}", sim.misuse());

    let (_sim, device, _) = simulated(Gpu::H200);
    device.set_non_concurrent_access(NonConcurrentAccess::Mapped);
    assert!(
        UnifiedBuffer::<u32>::zeroed(&device, 100)
            .unwrap()
            .is_managed()
    );
}

/// The result of an attempt when it no longer returns "busy".
fn eventually<R>(mut attempt: impl FnMut() -> cuda_um::Result<R>) -> R {
    // Far longer than any work here takes: an attempt that is still busy stays busy.
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        match attempt() {
            Err(Error::Busy { .. }) if Instant::now() < end => std::thread::yield_now(),
            result => return result.unwrap(),
        }
    }
}
