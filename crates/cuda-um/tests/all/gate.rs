//! A device without concurrent managed access: host accesses and device work exclude each other.

mod waiting;

use cuda_um::buffer::TransferOptions;
use cuda_um::{
    DeviceBuffer, Error, NonConcurrentAccess, PinnedBuffer, Placement, UnifiedBuffer,
    UnifiedOptions, constant,
};
use cuda_um_sim::{Fail, Gpu, Sim};
use cuda_um_testkit::watchdog::watch;
use cuda_um_testkit::{Add, Checked, calls, fails, open, simulated};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// claims 1, 6 and 15
#[test]
fn guards_hold_launches_off_and_wait_for_the_whole_device() {
    let (sim, device, stream) = simulated(Gpu::NoConcurrentAccess);
    let add = Add::load(&device);
    let mut used = UnifiedBuffer::<u32>::zeroed(&device, 100).unwrap();
    let other = UnifiedBuffer::from_slice(&device, &[5u32; 100]).unwrap();
    let mut memory = DeviceBuffer::<u32>::zeroed(&device, 100).unwrap();
    let graph = stream.capture(|_| memory.fill_on(constant(4), &stream));
    let mut exec = graph.unwrap().instantiate().unwrap();

    let guard = other.host().unwrap();
    for refused in [
        add.launch(&stream, 100, (&mut used, 100u32, 1u32)),
        add.launch(&stream, 100, (&mut memory, 100u32, 1u32)),
        stream.copy(&used, &mut memory),
        exec.launch(&stream, (&mut memory,)),
    ] {
        fails!(refused, Error::Busy { .. }, "no concurrent managed access");
    }
    let second = used.host().unwrap();
    drop(guard);
    assert!(used.try_host().is_ok(), "guards live beside each other");
    drop(second);
    exec.launch(&stream, (&mut memory,)).unwrap();

    let paused = sim.pause();
    add.run(&stream, &mut used, 100, 3);
    // Any managed memory is out of reach while a kernel runs.
    fails!(other.try_host(), Error::Busy { .. });
    let resume = std::thread::spawn(move || drop(paused));
    assert_eq!(other.host().unwrap()[0], 5);
    resume.join().unwrap();
    assert_eq!(used.host().unwrap()[0], 3);
    add.run(&stream, &mut used, 100, 3);
    assert_eq!(pollster::block_on(used.host_async()).unwrap()[0], 6);
    std::mem::forget(used.host().unwrap());
    let refused = add.launch(&stream, 100, (&mut used, 100u32, 1u32));
    fails!(refused, Error::Busy { .. });
    assert_eq!(used.host().unwrap()[0], 6, "the host still may");
}

/// claim 6: also if the first look for the driver fails
#[test]
fn every_runtime_over_the_driver_shares_the_gate() {
    let builder = Sim::builder().gpu(Gpu::NoConcurrentAccess);
    let sim = Checked::new(builder.build().unwrap());
    let (first, second) = (open(&sim), open(&sim));
    sim.fail(Fail::call("cudaGetDriverEntryPoint"));
    fails!(first.device_count(), Error::Load(_));
    let (device, again) = (first.device(0).unwrap(), second.device(0).unwrap());
    let buffer = UnifiedBuffer::<u32>::zeroed(&device, 100).unwrap();
    let mut foreign = UnifiedBuffer::<u32>::zeroed(&again, 100).unwrap();
    let (add, stream) = (Add::load(&again), again.create_stream().unwrap());
    let guard = buffer.host().unwrap();
    let refused = add.launch(&stream, 100, (&mut foreign, 100u32, 1u32));
    fails!(refused, Error::Busy { .. });
    drop(guard);
    add.run(&stream, &mut foreign, 100, 1);
}

#[test]
fn beside_guards_the_host_allocates_fills_and_copies() {
    let (sim, device, stream) = simulated(Gpu::NoConcurrentAccess);
    let a = UnifiedBuffer::from_slice(&device, &[1.0f32; 1000]).unwrap();
    let b = UnifiedBuffer::from_slice(&device, &[2.0f32; 1000]).unwrap();
    let mut on_device = DeviceBuffer::<f32>::zeroed(&device, 1000).unwrap();
    device.synchronize().unwrap();
    let (a, b) = (a.host().unwrap(), b.host().unwrap());
    let enqueued = || calls(&sim, "cudaMemcpyAsync") + calls(&sim, "cudaMemsetAsync");
    let before = enqueued();
    let mut c = UnifiedBuffer::<f32>::zeroed(&device, 1000).unwrap();
    c.host_mut().unwrap()[0] = a[0] + b[0];
    assert_eq!(c.host().unwrap()[..2], [3.0, 0.0]);
    c.fill_on(0.25, &stream).unwrap();
    let copy = UnifiedBuffer::from_slice(&device, &b).unwrap();
    let mut back = [0.0; 1000];
    c.copy_to_host(&mut back).unwrap();
    assert_eq!((back[999], copy.host().unwrap()[999]), (0.25, 2.0));
    assert_eq!(enqueued(), before, "the device has no part in it");

    // Without managed memory and without a kernel, the device has its part.
    on_device.copy_from_host(&a).unwrap();
    on_device.copy_to_host(&mut back).unwrap();
    assert_eq!(back[999], 1.0);
    on_device.fill_on(7.0, &stream).unwrap();
    let other = DeviceBuffer::from_slice(&device, &back).unwrap();
    stream.copy(&other, &mut on_device).unwrap();
    on_device.copy_to_host(&mut c.host_mut().unwrap()).unwrap();
    assert_eq!(c.host().unwrap()[999], 1.0);
}

#[test]
fn cuda_gets_no_managed_memory_of_guards() {
    // While CUDA copies managed memory, the host may not access it, and another guard of it may live.
    let (sim, device, _) = simulated(Gpu::NoConcurrentAccess);
    // A ring that the first copy allocates itself.
    device.set_transfer_options(TransferOptions::default().threads(2).ring_bytes(512 << 10));
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
        let (_sim, device, stream) = simulated(Gpu::NoConcurrentAccess);
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
                    add.run(&stream, &mut made, 100, 1);
                }
            }
            done.store(true, Ordering::Relaxed);
        });
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
    for wanted in [
        "device 0, which has no concurrent managed access, is busy: this thread has 1 of the 1 host guard(s)",
        "(UnifiedBuffer<u32>[100] of crates/cuda-um/tests/all/gate.rs:",
        "drop them before the call, or use mapped memory (NonConcurrentAccess::Mapped)",
    ] {
        assert!(unnamed.contains(wanted), "{unnamed}");
    }
    weights.set_name("weights");
    assert!(refusal(&weights).contains("`weights`"));

    device.set_non_concurrent_access(NonConcurrentAccess::Refuse);
    let held = weights.host().unwrap();
    let other = std::thread::scope(|scope| {
        let other = scope.spawn(|| add.launch(&stream, 100, (&mut used, 100u32, 1u32)));
        other.join().unwrap()
    });
    drop(held);
    let says = ["live on other threads", "NonConcurrentAccess::Wait"];
    fails!(other, Error::Busy { .. }, says[0], says[1]);
}

#[test]
fn mapped_and_pinned_memory_have_no_such_rule() {
    let (_sim, device, stream) = simulated(Gpu::NoConcurrentAccess);
    device.set_non_concurrent_access(NonConcurrentAccess::Mapped);
    let add = Add::load(&device);
    let a = UnifiedBuffer::from_slice(&device, &[1u32; 100]).unwrap();
    let idle = PinnedBuffer::from_slice(&device, &[1u32; 100]).unwrap();
    let mut c = UnifiedBuffer::<u32>::zeroed(&device, 100).unwrap();
    let mut used = PinnedBuffer::<u32>::zeroed(&device, 100).unwrap();
    assert!(!a.is_managed() && a.placement().reason.contains("NonConcurrentAccess::Mapped"));
    let (guard, of_pinned) = (a.host().unwrap(), idle.host().unwrap());
    add.run(&stream, &mut c, 100, 2);
    add.run(&stream, &mut used, 100, 2);
    assert_eq!((guard[0], of_pinned[0]), (1, 1));
    assert_eq!((c.host().unwrap()[99], used.host().unwrap()[99]), (2, 2));
    let asked = UnifiedOptions::default().placement(Placement::Managed);
    let managed = UnifiedBuffer::<u32>::zeroed_with(&device, 100, asked).unwrap();
    assert!(managed.is_managed());

    let (_sim, device, _) = simulated(Gpu::H200);
    device.set_non_concurrent_access(NonConcurrentAccess::Mapped);
    let buffer = UnifiedBuffer::<u32>::zeroed(&device, 100).unwrap();
    assert!(buffer.is_managed());
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
