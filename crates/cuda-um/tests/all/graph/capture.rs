//! What a capture records.

use cuda_um::{Device, DeviceBuffer, Error, Result, Stream, UnifiedBuffer, constant};
use cuda_um_sim::{Fail, Gpu};
use cuda_um_testkit::watchdog::watch;
use cuda_um_testkit::{Add, device, fails, message, simulated, unpooled};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::{Arc, Barrier};
use std::time::Duration;

/// claim 3
#[test]
fn operations_without_a_stream_and_new_buffers_are_recorded() {
    let (_sim, device, stream) = device();
    let add = Add::load(&device);
    let mut out = DeviceBuffer::<u32>::zeroed(&device, 64).unwrap();
    let graph = stream.capture(|_| {
        // Its zeros are written on the library's stream, in each launch.
        let mut local = UnifiedBuffer::<u32>::zeroed(&device, 64)?;
        add.launch(&stream, 64, (&mut local, constant(64u32), constant(5u32)))?;
        stream.copy(&local, &mut out)
    });
    let graph = graph.unwrap();
    let mut exec = graph.instantiate().unwrap();
    drop(graph);
    assert_eq!(out.to_vec().unwrap(), [0; 64]);
    // Other buffers do not get the memory of the graph.
    let others: Vec<_> = (0..8)
        .map(|_| UnifiedBuffer::from_slice(&device, &[9u32; 64]).unwrap())
        .collect();
    for _ in 0..2 {
        exec.launch(&stream, (&mut out,)).unwrap();
        assert_eq!(out.to_vec().unwrap(), [5; 64]);
    }
    for other in others {
        assert_eq!(*other.host().unwrap(), [9; 64]);
    }
}

/// A clone of a stream may go to any thread, and its work there is no part of the capture.
#[test]
fn no_stream_that_a_capture_gives_out_is_captured_on_another_thread() {
    let (_sim, device, stream) = device();
    let mut recorded = DeviceBuffer::<u32>::zeroed(&device, 10).unwrap();
    let graph = stream.capture(|recording| {
        let forked = device.create_stream()?;
        recording.fork(&forked)?;
        let streams = [stream.clone(), device.default_stream()?, forked];
        let elsewhere = std::thread::spawn(move || {
            streams.map(|stream| {
                let mut direct = DeviceBuffer::<u32>::zeroed(&stream.device(), 10).unwrap();
                direct.fill_on(3, &stream).unwrap();
                direct.to_vec().unwrap()[9]
            })
        });
        assert_eq!(elsewhere.join().unwrap(), [3; 3]);
        recorded.fill_on(constant(1), &device.default_stream()?)
    });
    let mut exec = graph.unwrap().instantiate().unwrap();
    assert_eq!(recorded.to_vec().unwrap(), [0; 10]);
    exec.launch(&stream, (&mut recorded,)).unwrap();
    assert_eq!(recorded.to_vec().unwrap(), [1; 10]);
}

#[test]
fn a_closure_that_fails_or_panics_ends_the_capture() {
    let (_sim, device, stream) = device();
    let mut data = UnifiedBuffer::<u32>::zeroed(&device, 10).unwrap();
    let failed = stream.capture(|_| {
        data.fill_on(constant(1), &stream)?;
        data.view(5..99).map(drop)
    });
    assert!(failed.unwrap_err().to_string().starts_with("range 5..99"));
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        stream.capture(|_| {
            data.fill_on(constant(2), &stream)?;
            panic!("in a closure")
        })
    }));
    assert_eq!(message(&*panicked.unwrap_err()), "in a closure");
    data.fill_on(constant(3), &stream).unwrap();
    assert_eq!(data.host().unwrap()[0], 3);
}

#[test]
fn foreign_work_that_panics_breaks_the_capture() {
    let (_sim, device, stream) = device();
    let mut data = DeviceBuffer::<u32>::zeroed(&device, 64).unwrap();
    let graph = stream.capture(|_| {
        // SAFETY: the work enqueues nothing. Other work may have been captured before it panics.
        #[allow(unsafe_code, reason = "foreign work")]
        let mut work =
            || unsafe { stream.enqueue_foreign((&mut data,), |_| panic!("their library panics")) };
        let panicked = catch_unwind(AssertUnwindSafe(|| -> Result<()> { work() }));
        assert_eq!(message(&*panicked.unwrap_err()), "their library panics");
        Ok(())
    });
    fails!(graph, Error::Capture { .. }, "work that panicked");
}

#[test]
fn zeros_of_a_buffer_that_leaves_the_capture_are_there_before_a_launch() {
    let (_sim, device, stream) = device();
    // Memory that the pools give out again.
    drop(UnifiedBuffer::from_slice(&device, &[7u32; 64]).unwrap());
    drop(DeviceBuffer::from_slice(&device, &[7u32; 64]).unwrap());
    let mut made = None;
    let graph = stream.capture(|_| {
        let managed = UnifiedBuffer::<u32>::zeroed(&device, 64)?;
        made = Some((managed, DeviceBuffer::<u32>::zeroed(&device, 64)?));
        Ok(())
    });
    let (mut managed, mut on_device) = made.unwrap();
    assert_eq!(*managed.host().unwrap(), [0; 64]);
    assert_eq!(on_device.to_vec().unwrap(), [0; 64]);
    managed.fill(1).unwrap();
    let mut exec = graph.unwrap().instantiate().unwrap();
    exec.launch(&stream, (&mut managed, &mut on_device))
        .unwrap();
    assert_eq!(managed.host().unwrap()[63], 0);
}

#[test]
fn a_guard_that_waits_for_a_capture_holds_off_no_other_work_of_the_closure() {
    let (_sim, device, stream) = simulated(Gpu::NoConcurrentAccess);
    let mut data = UnifiedBuffer::<u32>::zeroed(&device, 10).unwrap();
    data.fill_on(constant(1), &stream).unwrap();
    let begun = Barrier::new(2);
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| {
            begun.wait();
            data.host().map(|guard| guard[0])
        });
        let graph = stream.capture(|_| {
            begun.wait();
            // Enough for the other thread to wait.
            std::thread::sleep(Duration::from_millis(20));
            // Its zeros are also written now.
            UnifiedBuffer::<u32>::zeroed(&device, 10)?.fill_on(constant(3), &stream)
        });
        graph.unwrap();
        assert_eq!(waits.join().unwrap().unwrap(), 1);
    });
}

/// claim 3
#[test]
fn an_import_that_is_dropped_does_not_belong_to_the_graph() {
    let (_sim, device, stream) = device();
    let theirs = DeviceBuffer::<u32>::zeroed(&device, 64).unwrap();
    let pointer = NonNull::new(theirs.as_ptr().cast_mut()).unwrap();
    let graph = stream.capture(|_| {
        // SAFETY: `theirs` lives longer than the import, and is not used meanwhile.
        #[allow(unsafe_code, reason = "an import")]
        let mut import = unsafe { DeviceBuffer::from_foreign(&device, pointer, 64, ()) }?;
        import.fill_on(constant(3), &stream)
    });
    drop(theirs);
    let missing = graph.unwrap().instantiate().unwrap().launch(&stream, ());
    fails!(missing, Error::InvalidArgument { .. });
}

/// claim 3
#[test]
fn there_is_no_graph_after_a_call_that_may_have_recorded_a_part() {
    let (sim, device, stream) = simulated(Gpu::default());
    let mut data = UnifiedBuffer::<u32>::zeroed(&device, 64).unwrap();
    let info = match device.runtime().version().major {
        13.. => "cudaStreamGetCaptureInfo",
        _ => "cudaStreamGetCaptureInfo_v2",
    };
    for fails in [
        Fail::call("cuLaunchKernel").after_the_call(),
        // After the launch, for the node of its named scalar.
        Fail::call(info),
    ] {
        let add = Add::load(&device);
        sim.fail(fails);
        let graph = stream.capture(|step| {
            // A launch of the graph would run the kernel, which the graph does not keep.
            let arguments = (&mut data, constant(64u32), step.scalar("number", 1u32));
            assert!(add.launch(&stream, 64, arguments).is_err());
            Ok(())
        });
        fails!(graph, Error::Capture { .. });
    }
}

#[test]
fn a_capture_at_the_end_of_its_thread_is_refused() {
    struct Last(RefCell<Option<(Device, Stream)>>);
    impl Drop for Last {
        fn drop(&mut self) {
            let (device, stream) = self.0.take().unwrap();
            // A panic here aborts the process.
            fails!(stream.capture(|_| Ok(())), Error::Capture { .. });
            drop(device);
        }
    }
    thread_local!(static LAST: Last = const { Last(RefCell::new(None)) });
    let (_sim, device, stream) = device();
    std::thread::scope(|scope| {
        let captures = || {
            // Destroyed after the value of the capture, which is used later.
            LAST.with(|last| *last.0.borrow_mut() = Some((device.clone(), stream.clone())));
            stream.capture(|_| Ok(())).map(drop)
        };
        scope.spawn(captures).join().unwrap().unwrap();
    });
    // No capture is left, for which this would wait.
    device.synchronize().unwrap();
}

#[test]
fn a_thread_that_captures_does_not_wait_for_what_waits_for_its_capture() {
    let (_sim, device, stream) = unpooled(Gpu::default());
    let _watchdog = watch();
    let lent = Arc::new(UnifiedBuffer::<u32>::zeroed(&device, 64).unwrap());
    // Later uses wait for the device, because nothing tells when another library ends.
    // SAFETY: there is no other library.
    #[allow(unsafe_code, reason = "an export")]
    drop(unsafe { lent.export_mut(&stream) }.unwrap());
    let graph = stream.capture(|_| {
        drop(lent);
        fails!(device.runtime().reclaim(), Error::Capture { .. });
        Ok(())
    });
    graph.unwrap();
    device.runtime().reclaim().unwrap();
}
