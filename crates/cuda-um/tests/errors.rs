//! Failures of CUDA, injected in the simulator: the text of the errors, and that nothing is lost.

use cuda_um::{
    DeviceBuffer, Error, ErrorKind, MemoryKind, Oversubscription, PinnedBuffer, Pool, PoolOptions,
    RegisteredBuffer, UnifiedBuffer, UnifiedOptions, buffer::TransferOptions,
};
use cuda_um_sim::{Fail, Gpu, Leak, Misuse, Sim};
use cuda_um_sys::cudaError;
use cuda_um_testkit::{Add, Checked, calls, simulated, simulated_with, unpooled, without_pools};

const MIB: usize = 1 << 20;

/// Makes the next call of a function fail; a prefetch also under the name that it had from 12.2 to 12.9.
fn fail(sim: &Sim, call: &str) {
    let names = match call {
        "cudaMemPrefetchAsync" => &[call, "cudaMemPrefetchAsync_v2"][..],
        _ => &[call],
    };
    for name in names {
        sim.fail(Fail::call(name).with(cudaError::cudaErrorInvalidValue));
    }
}

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
    let all = UnifiedBuffer::<u8>::uninit(&device, free, options).unwrap();
    all.close().unwrap();
    let taken = DeviceBuffer::<u8>::zeroed(&device, MIB).unwrap();
    let error = UnifiedBuffer::<u8>::uninit(&device, free, options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    // The memory in use is not managed.
    let text = error.to_string();
    assert!(text.contains(" bytes of it are in use), which"), "{text}");
    taken.close().unwrap();
    device.trim();
    let error = UnifiedBuffer::<u8>::uninit(&device, free + 1, options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);

    // Each of the two fits, but not both together: the second is refused, although no page may be resident yet.
    let first = UnifiedBuffer::<u8>::uninit(&device, 40 * MIB, options).unwrap();
    let error = UnifiedBuffer::<u8>::uninit(&device, 40 * MIB, options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    first.close().unwrap();
    UnifiedBuffer::<u8>::uninit(&device, 40 * MIB, options)
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

#[test]
fn an_error_names_call_subject_and_code_and_is_cleared() {
    let (sim, device, stream) = simulated(Gpu::H200);
    let buffer = UnifiedBuffer::<u8>::zeroed(&device, 5000).unwrap();
    buffer.forget_residency();
    fail(&sim, "cudaMemPrefetchAsync");
    let error = buffer.prefetch_on(&device, &stream).unwrap_err();
    let text = "cudaMemPrefetchAsync: 5000 bytes to device 0: cudaErrorInvalidValue (1): ";
    assert!(error.to_string().starts_with(text), "{error}");
    assert_eq!((error.kind(), error.is_sticky()), (ErrorKind::Call, false));
    let table = sim.table();
    // SAFETY: the function takes no arguments.
    #[allow(unsafe_code, reason = "reads the thread's last error")]
    let last = unsafe { (table.cudaPeekAtLastError)() };
    assert_eq!(
        last,
        cudaError::cudaSuccess,
        "the runtime's last error is cleared"
    );
    buffer.prefetch_on(&device, &stream).unwrap();
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
fn a_broken_context_is_sticky_and_its_memory_is_not_reused() {
    let (sim, device, stream) = simulated_with(|builder| builder.crash_on_misuse(false));
    without_pools(&device);
    sim.breaks("a kernel has an illegal address");
    sim.misuses(1, "a kernel goes beyond its buffer", |misuse| {
        matches!(misuse, Misuse::KernelFault { .. })
    });
    let add = Add::load(&device);
    let mut buffer = UnifiedBuffer::<u32>::zeroed(&device, 10).unwrap();
    // The kernel accesses memory beyond its buffer: an illegal address.
    add.launch(&stream, 100_000, (&mut buffer, 100_000u32, 1u32))
        .unwrap();
    let error = buffer.host().map(|guard| guard[0]).unwrap_err();
    assert!(error.is_sticky(), "{error}");
    assert!(
        error.to_string().contains("cudaErrorIllegalAddress (700)"),
        "{error}"
    );
    assert!(
        DeviceBuffer::<u8>::zeroed(&device, 1)
            .unwrap_err()
            .is_sticky(),
        "every later call fails"
    );
    let error = buffer.close().unwrap_err();
    assert!(error.is_sticky(), "{error}");
    assert!(sim.poison().is_some());
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
fn no_such_device() {
    let (_sim, device, _) = simulated_with(|builder| builder.devices(2));
    let error = device.runtime().device(2).unwrap_err();
    assert_eq!(
        error.to_string(),
        "there is no device 2: the runtime has 2, numbered from 0"
    );
    assert_eq!(device.runtime().devices().unwrap().len(), 2);
}

/// Resumes the streams after a moment. A wait that gives up too early returns before that.
fn resume_later(paused: cuda_um_sim::PauseGuard) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(30));
        drop(paused);
    })
}

#[test]
fn borrowed_memory_is_not_given_back_while_a_failed_wait_leaves_a_copy_going() {
    let (sim, device, stream) = simulated(Gpu::H200);
    let source = DeviceBuffer::from_slice(&device, &[7u8; 4096]).unwrap();
    stream.synchronize().unwrap();
    let mut memory = vec![0u8; 4096];
    let mut resume = None;
    let outcome = RegisteredBuffer::scope(&device, &mut memory, |registered| {
        let paused = sim.pause();
        stream.copy(&source, registered).unwrap();
        sim.fail(Fail::call("cudaStreamSynchronize").with(cudaError::cudaErrorMemoryAllocation));
        resume = Some(resume_later(paused));
    });
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::OutOfMemory);
    assert_eq!(memory, [7; 4096], "the copy is over");
    resume.unwrap().join().unwrap();
}

#[test]
fn a_failed_wait_of_copy_to_host_does_not_leave_the_copy_going() {
    let (sim, device, _) = simulated(Gpu::H200);
    let source = DeviceBuffer::from_slice(&device, &[7u8; 300_000]).unwrap();
    let mut target = PinnedBuffer::<u8>::zeroed(&device, 300_000).unwrap();
    let mut slice = target.host_mut().unwrap();
    let paused = sim.pause();
    sim.fail(Fail::call("cudaStreamSynchronize").with(cudaError::cudaErrorMemoryAllocation));
    let resume = resume_later(paused);
    let error = source.copy_to_host(&mut slice).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    assert_eq!(*slice, [7; 300_000], "the copy is over");
    resume.join().unwrap();
}

#[test]
fn registering_that_reports_a_failure_leaves_nothing_registered() {
    let (sim, device, _) = simulated(Gpu::H200);
    let late = || {
        let late = Fail::call("cudaHostRegister").with(cudaError::cudaErrorInvalidValue);
        sim.fail(late.after_the_call());
    };
    let mut memory = vec![0u32; 4096];
    late();
    let error = RegisteredBuffer::scope(&device, &mut memory, |_| panic!("not registered"));
    let error = error.map(drop).unwrap_err();
    assert!(error.to_string().contains("cudaHostRegister"), "{error}");
    let len = RegisteredBuffer::scope(&device, &mut memory, |registered| registered.len());
    assert_eq!(len.unwrap(), 4096, "it can be registered");
    late();
    RegisteredBuffer::from_vec(&device, memory).unwrap_err();
    device.runtime().reclaim().unwrap();
    assert_eq!(
        sim.leaks()
            .iter()
            .filter(|leak| is_registration(leak))
            .count(),
        0
    );
}

fn is_registration(leak: &Leak) -> bool {
    matches!(leak, Leak::Registration { .. })
}

#[test]
#[allow(unsafe_code, reason = "simulates code that calls CUDA directly")]
fn memory_that_other_code_registered_stays_registered() {
    let (sim, device, _) = simulated(Gpu::H200);
    let mut memory = vec![0u32; 4096];
    let (table, address) = (sim.table(), memory.as_mut_ptr().cast());
    // SAFETY: the memory lives until it is unregistered.
    let code = unsafe { (table.cudaHostRegister)(address, 4096 * 4, 0) };
    assert_eq!(code, cudaError::cudaSuccess);
    let refused = RegisteredBuffer::scope(&device, &mut memory[1000..], |_| ());
    let refused = [
        refused,
        RegisteredBuffer::scope(&device, &mut memory, |_| ()),
    ];
    for error in refused.map(Result::unwrap_err) {
        let already = cudaError::cudaErrorHostMemoryAlreadyRegistered.0;
        assert!(
            matches!(error, Error::Call { code, .. } if code == already),
            "{error}"
        );
    }
    // SAFETY: it was registered above.
    let code = unsafe { (table.cudaHostUnregister)(address) };
    assert_eq!(code, cudaError::cudaSuccess, "it still was");
}

#[test]
fn a_lost_device_is_sticky_and_borrowed_memory_goes_back() {
    let (sim, device, stream) = simulated(Gpu::H200);
    let source = DeviceBuffer::from_slice(&device, &[7u8; 4096]).unwrap();
    stream.synchronize().unwrap();
    let mut memory = vec![0u8; 4096];
    let outcome = RegisteredBuffer::scope(&device, &mut memory, |registered| {
        stream.copy(&source, registered).unwrap();
        let lost = Fail::call("cudaStreamSynchronize");
        let lost = lost.with(cudaError::cudaErrorDevicesUnavailable);
        sim.fail(lost.sticky());
        sim.breaks("the device is lost");
    });
    let error = outcome.unwrap_err();
    assert!(error.is_sticky(), "{error}");
    assert!(
        error
            .to_string()
            .contains("cudaErrorDevicesUnavailable (46)"),
        "{error}"
    );
    // One error is not enough: the library also queries the stream and the device before it unregisters the memory.
    let calls = sim.trace();
    let lost = calls
        .iter()
        .position(|call| call.result == cudaError::cudaErrorDevicesUnavailable);
    let after = &calls[lost.expect("the wait said so") + 1..];
    let asked = after
        .iter()
        .take_while(|call| call.name != "cudaHostUnregister");
    assert!(asked.count() >= 2, "{after:?}");
    assert!(device.create_stream().unwrap_err().is_sticky());
}

/// If the library takes an error as the end of all work, the simulator must also end all work, because the library then frees
/// memory.
#[test]
fn an_error_that_ends_all_work_ends_it() {
    let mut ends = 0;
    for code in 1..=1000 {
        let (sim, device, stream) = simulated(Gpu::H200);
        let mut buffer = DeviceBuffer::<u32>::zeroed(&device, 100).unwrap();
        buffer.fill_on(3, &stream).unwrap();
        stream.synchronize().unwrap();
        sim.fail(Fail::call("cudaStreamSynchronize").with_code(code));
        let error = stream.synchronize().unwrap_err();
        assert_eq!(error.is_sticky(), sim.poison().is_some(), "{error}");
        if error.is_sticky() {
            sim.breaks("the injected error breaks it");
            ends += 1;
        }
    }
    assert!(ends > 10, "{ends}");
}

/// The same if the failing call is the one that sets the device, and the thread's own device has no streams.
#[test]
fn a_loss_at_the_choice_of_the_device_ends_all_work() {
    for call in ["cudaGetDevice", "cudaSetDevice"] {
        for code in [46, 100] {
            let sim = Checked::new(Sim::builder().devices(2).build().unwrap());
            sim.breaks("the device is lost");
            let (device, stream) = cuda_um_testkit::on(&cuda_um_testkit::open(&sim), 1);
            let source = DeviceBuffer::from_slice(&device, &[7u8; 4096]).unwrap();
            device.synchronize().unwrap();
            let mut memory = vec![0u8; 4096];
            let paused = sim.pause();
            let outcome = RegisteredBuffer::scope(&device, &mut memory, |registered| {
                stream.copy(&source, registered).unwrap();
                sim.fail(Fail::call(call).from_then_on().with_code(code));
            });
            let error = outcome.unwrap_err();
            assert!(error.is_sticky() && sim.poison().is_some(), "{error}");
            drop(paused);
            std::thread::sleep(std::time::Duration::from_millis(50));
            assert_eq!(memory, [0; 4096], "{call}: the copy goes on");
        }
    }
}

#[test]
fn a_device_that_never_worked_is_not_lost() {
    let sim = Checked::new(Sim::builder().build().unwrap());
    let unavailable = cudaError::cudaErrorDevicesUnavailable;
    sim.fail(Fail::call("cudaStreamCreateWithFlags").with(unavailable));
    let device = cuda_um_testkit::open(&sim).device(0).unwrap();
    let error = device.create_stream().unwrap_err();
    assert!(!error.is_sticky(), "another process may have it: {error}");
    device.create_stream().unwrap();
}

#[test]
fn a_device_that_never_worked_is_not_lost_though_another_one_works() {
    let (sim, device, stream) = simulated_with(|builder| builder.devices(2));
    sim.breaks("the second device is lost at the end");
    let mut works = UnifiedBuffer::<u32>::zeroed(&device, 10).unwrap();
    let second = device.runtime().device(1).unwrap();
    for code in [
        cudaError::cudaErrorDevicesUnavailable,
        cudaError::cudaErrorNoDevice,
    ] {
        sim.fail(Fail::call("cudaStreamCreateWithFlags").with(code));
        let error = second.create_stream().unwrap_err();
        assert!(!error.is_sticky(), "another process may have it: {error}");
        works.fill_on(3, &stream).unwrap();
        assert_eq!(works.host().unwrap()[0], 3);
    }
    let of_second = second.create_stream().unwrap();
    of_second.synchronize().unwrap();
    let unavailable = cudaError::cudaErrorDevicesUnavailable;
    sim.fail(Fail::call("cudaStreamCreateWithFlags").with(unavailable));
    assert!(
        second.create_stream().unwrap_err().is_sticky(),
        "now it has worked"
    );
}

#[test]
fn what_is_leaked_does_not_keep_the_runtime() {
    for gpu in [Gpu::H200, Gpu::NoConcurrentAccess] {
        let (sim, device, stream) = unpooled(gpu);
        sim.breaks("a kernel has an illegal address");
        sim.misuses(1, "a kernel goes beyond its buffer", |misuse| {
            matches!(misuse, Misuse::KernelFault { .. })
        });
        let table = std::sync::Arc::downgrade(&sim.table());
        let add = Add::load(&device);
        let pool = Pool::new(&device, MemoryKind::Managed, PoolOptions::default()).unwrap();
        let mut own = UnifiedBuffer::<u32>::zeroed(&device, 10).unwrap();
        let mut pooled = UnifiedBuffer::<u32>::zeroed_in(&pool, 10).unwrap();
        add.launch(&stream, 100_000, (&mut own, 100_000u32, 1u32))
            .unwrap();
        let _ = add.launch(&stream, 10, (&mut pooled, 10u32, 1u32));
        assert!(pooled.close().unwrap_err().is_sticky());
        assert!(own.close().unwrap_err().is_sticky());
        let runtime = device.runtime().clone();
        drop((add, pool, stream, device));
        assert!(runtime.reclaim().is_err_and(|error| error.is_sticky()));
        drop(runtime);
        assert_eq!(table.strong_count(), 0, "{gpu:?}");
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

#[test]
fn unregistering_is_tried_once_more() {
    let (sim, device, _) = simulated(Gpu::H200);
    let mut memory = vec![0u8; 4096];
    let fail = Fail::call("cudaHostUnregister").with(cudaError::cudaErrorInvalidValue);
    for fail in [fail.clone(), fail.after_the_call()] {
        sim.fail(fail);
        RegisteredBuffer::scope(&device, &mut memory, |_| {}).unwrap();
    }
}

/// Pinned memory was freed while copies used it, if the wait for them failed.
#[test]
fn staging_memory_is_not_freed_under_copies_whose_wait_fails() {
    let staged = TransferOptions::default().threads(1).ring_bytes(4 * MIB);
    let device_wait = "cudaDeviceSynchronize";
    // The copy's size, its number of pieces of pinned memory, what fails, and if it fails again and again: then nothing tells that the copies
    // are done, so the pieces are leaked.
    for (bytes, pieces, fails, always) in [
        (1000, 1, &[device_wait][..], false),
        (1000, 1, &[device_wait], true),
        (3 * MIB, 2, &["cudaEventQuery"], false),
        (3 * MIB, 2, &["cudaEventQuery", device_wait], true),
    ] {
        let leaked = if always { pieces } else { 0 };
        let (sim, device, _) = simulated(Gpu::H200);
        device.set_transfer_options(staged);
        let mut memory = DeviceBuffer::<u8>::zeroed(&device, bytes).unwrap();
        let hold = sim.hold(0);
        memory.copy_from_host(&vec![7; bytes]).unwrap();
        assert!(!hold.is_over(), "the copy is still to run");
        for call in fails {
            let fail = Fail::call(call).with(cudaError::cudaErrorInvalidValue);
            sim.fail(if always { fail.from_then_on() } else { fail });
        }
        device.set_transfer_options(staged);
        assert_eq!(hold.is_over(), !always, "{bytes} bytes, {fails:?}");
        sim.clear_failures();
        drop(hold);
        assert_eq!(calls(&sim, "cudaFreeHost"), pieces - leaked);
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
