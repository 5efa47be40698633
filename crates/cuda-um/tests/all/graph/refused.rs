//! Calls that a capture refuses. Each is refused before CUDA is called, and the capture goes on.

use cuda_um::{DeviceBuffer, Error, Event, PinnedBuffer, Result, UnifiedBuffer, constant};
use cuda_um_testkit::{device, fails};

/// The call that an error of a capture names.
fn refused<T>(result: Result<T>) -> String {
    match result.err() {
        Some(Error::Capture { call, .. }) => call,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn calls_that_wait_or_run_at_once() {
    let (_sim, device, stream) = device();
    let other = device.create_stream().unwrap();
    let mut data = UnifiedBuffer::<u32>::zeroed(&device, 10).unwrap();
    let mut on_device = DeviceBuffer::<u32>::zeroed(&device, 10).unwrap();
    let pinned = PinnedBuffer::<u32>::zeroed(&device, 10).unwrap();
    let outside = other.record().unwrap();
    let mut event = None;
    let graph = stream
        .capture(|recording| {
            stream.copy(&pinned, &mut data)?;
            on_device.fill_on(constant(1), &stream)?;
            event = Some(stream.record()?);
            assert!(refused(data.host().map(drop)).starts_with("`host` of buffer"));
            assert!(refused(data.try_host_mut().map(drop)).starts_with("`try_host_mut` of buffer"));
            assert!(refused(pinned.host().map(drop)).starts_with("`host` of buffer"));
            let copies = "a copy from or to the host, or an export";
            assert_eq!(refused(on_device.copy_from_host(&[1; 10])), copies);
            assert_eq!(refused(on_device.copy_to_host(&mut [1; 10])), copies);
            assert_eq!(refused(stream.synchronize()), "Stream::synchronize");
            assert_eq!(refused(stream.is_idle()), "Stream::is_idle");
            assert_eq!(refused(device.synchronize()), "a wait for the device");
            assert_eq!(refused(Event::timed(&stream)), "Event::timed");
            let of_outside = "a wait for an event that was recorded outside of the capture";
            assert_eq!(refused(stream.wait(&outside)), of_outside);
            let elsewhere = refused(data.fill_on(constant(1), &other));
            assert!(elsewhere.starts_with("work on another stream, with buffer"));
            assert_eq!(refused(other.capture(|_| Ok(()))), "a second capture");
            recording.fork(&stream)?;
            data.fill_on(constant(2), &stream)
        })
        .unwrap();
    // The event is a point in the graph.
    let event = event.unwrap();
    for (refusal, of) in [
        (refused(event.synchronize()), "Event::synchronize"),
        (refused(event.is_complete()), "Event::is_complete"),
        (refused(other.wait(&event)), "Stream::wait"),
    ] {
        assert_eq!(refusal, format!("{of} with an event of a capture"));
    }
    let mut exec = graph.instantiate().unwrap();
    let nested = stream.capture(|_| exec.launch(&stream, (&pinned, &mut data, &mut on_device)));
    assert_eq!(refused(nested), "a launch of a graph");
    exec.launch(&stream, (&pinned, &mut data, &mut on_device))
        .unwrap();
    assert_eq!(*data.host().unwrap(), [2; 10]);
    assert_eq!(on_device.to_vec().unwrap(), [1; 10]);
}

#[test]
fn launches_without_the_recorded_memory() {
    let (_sim, device, stream) = device();
    let source = UnifiedBuffer::<u32>::zeroed(&device, 10).unwrap();
    let mut target = UnifiedBuffer::<u32>::zeroed(&device, 10).unwrap();
    target.set_name("target");
    let graph = stream
        .capture(|_| stream.copy(&source, &mut target))
        .unwrap();
    let mut exec = graph.instantiate().unwrap();
    let missing = exec.launch(&stream, (&source,));
    let told = fails!(
        missing,
        Error::InvalidArgument { .. },
        "1 buffers without buffer"
    );
    assert!(told.ends_with("pass `&mut buffer`"), "{told}");
    let read = exec.launch(&stream, (&source, &target));
    let told = fails!(read, Error::InvalidArgument { .. }, "to read");
    assert!(told.ends_with("pass `&mut buffer`"), "{told}");
    let short = exec.launch(&stream, (&source, target.view_mut(1..).unwrap()));
    let parts = ["bytes 4..40", "its bytes 0..40"];
    fails!(short, Error::InvalidArgument { .. }, parts[0], parts[1]);
    let mut like = UnifiedBuffer::<u32>::zeroed(&device, 10).unwrap();
    let other = exec.launch(&stream, (&source, &mut like));
    fails!(other, Error::InvalidArgument { .. }, "`target`");
    // More buffers, values and another order are allowed.
    exec.launch(&stream, (&mut like, 5u32, &mut target, &source))
        .unwrap();
}
