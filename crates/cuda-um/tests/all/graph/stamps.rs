//! What this thread does at once in a capture, and recorded work on the same memory, do not mix: no launch would repeat the former.

use cuda_um::{
    DeviceBuffer, Error, Location, PinnedBuffer, Result, UnifiedBuffer, buffer::HostOwnedMut,
    constant,
};
use cuda_um_testkit::{device, fails, is_concurrent};
use std::sync::mpsc::{Sender, channel};

type Access = fn(&mut UnifiedBuffer<u32>) -> Result<()>;

#[test]
fn recorded_work_after_an_access_of_the_host_fails_the_capture() {
    let (_sim, device, stream) = device();
    let mut data = UnifiedBuffer::<u32>::zeroed(&device, 10).unwrap();
    data.set_name("data");
    if !is_concurrent(&device) {
        return; // A guard waits for the device there, which the capture refuses.
    }
    let accesses: [(&str, Access); 5] = [
        ("`host`", |data| data.host().map(drop)),
        ("`host_mut`", |data| data.host_mut().map(drop)),
        ("`try_host`", |data| data.try_host().map(drop)),
        ("`try_host_mut`", |data| data.try_host_mut().map(drop)),
        ("host` has", |data| {
            pollster::block_on(data.host_async()).map(drop)
        }),
    ];
    // With or without the error of the recorded fill.
    for ((call, access), is_ignored) in accesses
        .into_iter()
        .flat_map(|it| [(it, false), (it, true)])
    {
        let graph = stream.capture(|_| {
            access(&mut data)?;
            let filled = data.fill_on(constant(1), &stream);
            assert!(filled.is_err());
            if is_ignored { Ok(()) } else { filled }
        });
        let told = fails!(
            graph,
            Error::Capture { .. },
            call,
            "has used that memory",
            "`data`"
        );
        assert!(told.starts_with("a fill with buffer"), "{told}");
    }
    // The capture ended each time, and the buffer is as before.
    data.fill_on(1, &stream).unwrap();
    assert_eq!(*data.host().unwrap(), [1; 10]);
}

#[test]
fn memory_that_the_host_has_filled_in_the_closure_is_not_recorded() {
    let (_sim, device, stream) = device();
    let mut target = DeviceBuffer::<u32>::zeroed(&device, 10).unwrap();
    let graph = stream.capture(|_| {
        let made = PinnedBuffer::from_slice(&device, &[5u32; 10])?;
        stream.copy(&made, &mut target)
    });
    fails!(
        graph,
        Error::Capture { .. },
        "a copy with buffer",
        "`copy_from_host` has used"
    );
    let graph = stream.capture(|_| stream.copy(&PinnedBuffer::zeroed(&device, 10)?, &mut target));
    fails!(graph, Error::Capture { .. }, "`zeroed` has used");
}

/// Sends its buffer when the guard that owns it ends.
struct Lent(Option<PinnedBuffer<u32>>, Sender<PinnedBuffer<u32>>);

impl Drop for Lent {
    fn drop(&mut self) {
        self.1.send(self.0.take().unwrap()).unwrap();
    }
}

#[test]
fn a_guard_from_before_the_capture_that_ends_in_it_is_an_access() {
    let (_sim, device, stream) = device();
    let (sender, returned) = channel();
    let data = PinnedBuffer::<u32>::zeroed(&device, 10).unwrap();
    let lent = Box::new(Lent(Some(data), sender));
    let mut guard = HostOwnedMut::new(lent, |lent| lent.0.as_mut().unwrap().host_mut()).unwrap();
    let graph = stream.capture(|_| {
        guard[0] = 5;
        drop(guard);
        returned.recv().unwrap().fill_on(constant(1), &stream)
    });
    fails!(graph, Error::Capture { .. }, "`host_mut` has used");
}

#[test]
fn work_on_another_stream_before_recorded_work_fails_the_capture() {
    let (_sim, device, stream) = device();
    let other = device.create_stream().unwrap();
    let mut data = UnifiedBuffer::<u32>::zeroed(&device, 10).unwrap();
    let graph = stream.capture(|_| {
        data.fill_on(7, &other)?;
        data.fill_on(constant(1), &stream)
    });
    fails!(graph, Error::Capture { .. }, "a fill with buffer");
    // Prefetches change nothing, and other memory is another matter.
    let mut unrelated = DeviceBuffer::<u32>::zeroed(&device, 10).unwrap();
    let graph = stream.capture(|_| {
        let _outcome = data.prefetch_on(Location::Device(0), &other);
        unrelated.fill_on(7, &other)?;
        data.fill_on(constant(1), &stream)
    });
    let mut exec = graph.unwrap().instantiate().unwrap();
    exec.launch(&stream, (&mut data,)).unwrap();
    assert_eq!(*data.host().unwrap(), [1; 10]);
}

#[test]
fn other_threads_use_memory_at_once() {
    let (_sim, device, stream) = device();
    let mut data = PinnedBuffer::<u32>::zeroed(&device, 10).unwrap();
    let graph = stream.capture(|_| {
        std::thread::scope(|scope| {
            let prepares = scope.spawn(|| data.copy_from_host(&[5; 10]));
            prepares.join().unwrap()
        })?;
        data.fill_on(constant(1), &stream)
    });
    let mut exec = graph.unwrap().instantiate().unwrap();
    assert_eq!(*data.host().unwrap(), [5; 10]);
    exec.launch(&stream, (&mut data,)).unwrap();
    assert_eq!(*data.host().unwrap(), [1; 10]);
}
