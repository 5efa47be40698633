//! Memory of the program that work used when a call failed.

use super::*;

/// Resumes the streams after a moment. A wait that gives up too early returns before that.
fn resume_later(paused: cuda_um_sim::PauseGuard) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(30));
        drop(paused);
    })
}

/// claim 22
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

/// claim 22
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
    fails!(
        outcome,
        Error::Sticky { .. },
        "cudaErrorDevicesUnavailable (46)"
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
