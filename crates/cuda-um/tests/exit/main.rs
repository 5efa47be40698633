//! Processes that end while buffers are alive: they exit normally and do not hang.
//!
//! Each test starts this binary again, to run the child's part of the test.
#![cfg(unix)]

mod stopped;

use cuda_um::{
    Device, DeviceBuffer, ErrorKind, Location, NonConcurrentAccess, PinnedBuffer, RegisteredBuffer,
    Stream, UnifiedBuffer,
    buffer::TransferOptions,
    fork::Origin,
    process_end::{self, Calls},
};
use cuda_um_sim::{Gpu, Sim};
use cuda_um_testkit::child::in_child;
use cuda_um_testkit::{
    Add, Told, again, everything, fail_waits, is_child, on, unwatched, without_pools,
};
use std::any::Any;
use std::future::Future;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, OnceLock};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

const HANGS: Duration = Duration::from_secs(60);

/// In the test: starts the child and waits for it. In the child: runs `body`, which ends the process with code 42.
fn ends_well(body: impl Fn()) {
    let (status, _) = child(body);
    assert_eq!(status.code(), Some(42), "{status}");
}

/// In the child: runs `body`, a closure of the test, which ends the process. In the test: returns the exit status and the output of the child.
fn child<F: Fn()>(body: F) -> (ExitStatus, String) {
    // `exit::stopped::the_test::{{closure}}`
    let name = std::any::type_name::<F>().trim_end_matches("::{{closure}}");
    let (_, name) = name.split_once("::").expect("the test is in a crate");
    if is_child() {
        body();
        panic!("the child did not end");
    }
    let mut child = again(name).stderr(Stdio::piped()).spawn().unwrap();
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if start.elapsed() > HANGS {
            child.kill().unwrap();
            panic!("the child hangs");
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let mut said = String::new();
    let mut from = child.stderr.take().unwrap();
    from.read_to_string(&mut said).unwrap();
    eprint!("{said}");
    (status, said)
}

/// A device of a simulator without final checks, or of a GPU without a wait at process exit: the process ends with all of this
/// alive.
fn device() -> (Device, Stream) {
    on(&unwatched().1, 0)
}

/// claim 16
#[test]
fn with_buffers_in_a_static_in_a_thread_local_and_leaked() {
    type Kept = OnceLock<(Box<dyn Any + Send + Sync>, Device)>;
    fn keep(kept: &Kept) {
        let (device, _stream) = device();
        assert!(kept.set((everything(&device), device)).is_ok());
    }
    static KEPT: Kept = OnceLock::new();
    thread_local!(static KEPT_HERE: Kept = const { OnceLock::new() });
    ends_well(|| {
        // Dropped while its thread ends.
        let thread = std::thread::spawn(|| KEPT_HERE.with(keep));
        thread.join().unwrap();
        keep(&KEPT);
        std::mem::forget(everything(&device().0));
        std::process::exit(42);
    });
}

#[test]
fn with_threads_that_drop_what_is_in_use() {
    ends_well(|| {
        let (device, _stream) = device();
        let kept = everything(&device);
        let (started, at_work) = std::sync::mpsc::channel();
        for _ in 0..3 {
            let (device, started) = (device.clone(), started.clone());
            std::thread::spawn(move || {
                loop {
                    // In use when they are dropped.
                    drop(everything(&device));
                    let _ = started.send(());
                }
            });
        }
        for _ in 0..9 {
            at_work.recv().unwrap();
        }
        drop(kept);
        std::process::exit(42);
    });
}

/// Runs `check` at the end of the process, after the library's handler, as CUDA's do: this must be called before the library uses CUDA.
/// A panic in `check` aborts the process.
fn at_the_end() -> impl FnOnce(Check) {
    static CHECK: Mutex<Option<Check>> = Mutex::new(None);
    extern "C" fn run() {
        let check = CHECK.lock().unwrap().take();
        check.expect("it is set")();
    }
    at_exit(run);
    |check| *CHECK.lock().unwrap() = Some(check)
}

/// Receives a message when a thread waits for a device.
fn waiting(sim: &Sim) -> Receiver<()> {
    let (waits, is_waiting) = channel();
    sim.on_wait(move |_| {
        let _ = waits.send(());
    });
    is_waiting
}

type Check = Box<dyn FnOnce() + Send>;

fn at_exit(handler: extern "C" fn()) {
    // SAFETY: the handler exists until the process ends, and a panic in it aborts.
    #[allow(unsafe_code, reason = "atexit is a C function")]
    let code = unsafe { libc::atexit(handler) };
    assert_eq!(code, 0);
}

#[test]
fn an_exit_handler_does_not_wait_for_the_capture_of_a_stopped_thread() {
    static DEVICE: OnceLock<Device> = OnceLock::new();
    // After the library's handler, which is registered later.
    extern "C" fn wait() {
        let _refused = DEVICE.get().map(Device::synchronize);
    }
    ends_well(|| {
        at_exit(wait);
        let (device, stream) = device();
        DEVICE.get_or_init(|| device);
        let (begins, begun) = channel();
        std::thread::spawn(move || {
            stream.capture(|_| {
                begins.send(()).unwrap();
                loop {
                    std::thread::sleep(HANGS);
                }
            })
        });
        begun.recv().unwrap();
        std::process::exit(42);
    });
}

#[test]
fn the_first_query_of_devices_is_enough() {
    ends_well(|| {
        let at_the_end = at_the_end();
        let runtime = unwatched().1;
        runtime.device_count().unwrap();
        at_the_end(Box::new(|| assert!(process_end::is_ending())));
        std::process::exit(42);
    });
}

/// The driver registers a handler when it makes a context: the library's must run before that one, too.
#[test]
fn the_library_ends_before_a_handler_of_the_first_context() {
    extern "C" fn end_of_the_context() {
        assert!(process_end::is_ending());
    }
    ends_well(|| {
        let runtime = unwatched().1;
        runtime.device_count().unwrap();
        at_exit(end_of_the_context);
        let _used = on(&runtime, 0);
        std::process::exit(42);
    });
}

/// The threads that would run its work have stopped.
#[test]
fn a_later_exit_handler_awaits_a_future() {
    ends_well(|| {
        let at_the_end = at_the_end();
        let sim = Sim::builder().build().unwrap();
        let (device, stream) = on(&cuda_um_testkit::open(&sim), 0);
        let mut data = UnifiedBuffer::<u32>::zeroed(&device, 1 << 20).unwrap();
        at_the_end(Box::new(move || {
            let paused = sim.pause();
            data.fill_on(7, &stream).unwrap();
            let resumes = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(20));
                drop(paused);
            });
            let first = pollster::block_on(data.host_async()).map(|data| data[0]);
            assert_eq!(first.unwrap(), 7);
            resumes.join().unwrap();
        }));
        std::process::exit(42);
    });
}

/// The thread that works for the future does not come back: the wait takes longer than the end of the process waits for it.
#[test]
fn a_future_whose_work_was_stopped_ends_with_an_error() {
    ends_well(|| {
        let at_the_end = at_the_end();
        let sim = Sim::builder().build().unwrap();
        let (device, stream) = on(&cuda_um_testkit::open(&sim), 0);
        let mut data = UnifiedBuffer::<u32>::zeroed(&device, 1 << 20).unwrap();
        device.synchronize().unwrap();
        let paused = sim.pause();
        data.fill_on(7, &stream).unwrap();
        let is_waiting = waiting(&sim);
        let mut future = Box::pin(cuda_um::unblock(move || stream.synchronize()));
        let poll = future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()));
        assert!(poll.is_pending());
        is_waiting.recv().unwrap();
        at_the_end(Box::new(move || {
            let error = pollster::block_on(future).unwrap_err();
            assert!(error.to_string().contains("the process ends"), "{error}");
            drop((paused, data));
        }));
        std::process::exit(42);
    });
}

/// The thread that runs the exit handlers is one of the library.
#[test]
fn in_the_work_of_a_future() {
    ends_well(|| {
        let (device, _stream) = device();
        let _kept = everything(&device);
        let ends = cuda_um::unblock(|| std::process::exit(42));
        pollster::block_on(ends).unwrap_or_else(|error| panic!("{error}"));
    });
}

/// The thread that ends the process is in a call itself, for which the end does not wait.
#[test]
fn in_a_closure_that_makes_elements() {
    ends_well(|| {
        let at_the_end = at_the_end();
        let (device, _stream) = device();
        device.set_transfer_options(TransferOptions::default().threads(1));
        let mut buffer = DeviceBuffer::<u8>::zeroed(&device, 32 << 20).unwrap();
        device.synchronize().unwrap();
        let waited = stopped::the_wait_of_the_end();
        at_the_end(Box::new(move || assert!(waited() < Duration::from_secs(1))));
        let ended = buffer.host_overwrite(.., |_, _| std::process::exit(42));
        panic!("{ended:?}");
    });
}

/// The child waits neither for a call of a thread that it does not have, nor for its own.
#[test]
fn a_child_may_end_by_exit_in_a_call() {
    ends_well(|| {
        // From now on, a child knows that it is one.
        let _ = Origin::here();
        let (begins, begun) = channel();
        std::thread::spawn(move || {
            let _calls = Calls::begin();
            begins.send(()).unwrap();
            std::thread::sleep(HANGS);
        });
        begun.recv().unwrap();
        let ended = Calls::begin();
        let code = in_child(|| {
            let at_the_end = at_the_end();
            let _used = device();
            let waited = stopped::the_wait_of_the_end();
            at_the_end(Box::new(move || assert!(waited() < Duration::from_secs(1))));
            drop(ended);
            std::process::exit(42);
        });
        std::process::exit(code);
    });
}

/// The only case that ends the process: the caller's memory would be released while a device may use it.
#[test]
fn borrowed_memory_that_no_call_can_wait_for() {
    let (status, said) = child(|| {
        let (sim, device, stream) = cuda_um_testkit::simulated(Gpu::H200);
        let add = Add::load(&device);
        let _ = RegisteredBuffer::scope(&device, &mut [0u32; 1000], |memory| {
            add.run(&stream, memory, 1000, 1);
            fail_waits(&sim);
        });
        std::process::exit(42);
    });
    assert_eq!(status.signal(), Some(libc::SIGABRT), "{status}");
    let why = "a device may still use memory that goes back to its owner";
    assert!(said.contains(why), "{said}");
}
