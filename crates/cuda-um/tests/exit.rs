//! Processes that end while buffers are alive: they exit normally and do not hang.
//!
//! Each test starts this binary again, to run the child's part of the test.

use cuda_um::sys::cudaError;
use cuda_um::{
    Device, DeviceBuffer, ErrorKind, Location, MemoryKind, Module, NonConcurrentAccess,
    PinnedBuffer, Pool, PoolOptions, RegisteredBuffer, Stream, UnifiedBuffer,
    buffer::TransferOptions,
    process_end,
    resource::{DriverPool, MemoryResource},
};
use cuda_um_sim::{Fail, Gpu, LaunchContext, ReferenceError, Sim, register_kernel};
use cuda_um_testkit::{ADD_PTX, Add, again, is_child, on, unwatched, without_pools};
use std::future::Future;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, OnceLock};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

const HANGS: Duration = Duration::from_secs(60);

/// In the test: starts the child and waits for it. In the child: runs `body`, which ends the process with code 42.
fn ends_well(name: &str, body: fn()) {
    let (status, _) = child(name, body);
    assert_eq!(status.code(), Some(42), "{status}");
}

/// In the child: runs `body`, which ends the process. In the test: returns the exit status and the output of the child.
fn child(name: &str, body: fn()) -> (ExitStatus, String) {
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

/// One of each kind.
type Buffers = (UnifiedBuffer<u32>, DeviceBuffer<u32>, PinnedBuffer<u32>);

/// Buffers of all kinds, with and without pools, with work in flight.
struct All {
    _buffers: Buffers,
    _pooled: Buffers,
    _pools: (Pool, Pool, Box<dyn MemoryResource>),
    _add: Add,
}

fn all(device: &Device, stream: &Stream) -> All {
    const LEN: usize = 100_000;
    let options = PoolOptions::default().slab_bytes(4 << 20);
    let pools = (
        Pool::new(device, MemoryKind::Managed, options).unwrap(),
        Pool::new(device, MemoryKind::Pinned, options).unwrap(),
        match DriverPool::new(device, MemoryKind::Device, options) {
            Ok(pool) => Box::new(pool) as Box<dyn MemoryResource>,
            Err(_) => Box::new(Pool::new(device, MemoryKind::Device, options).unwrap()),
        },
    );
    let mut buffers = (
        UnifiedBuffer::zeroed(device, LEN).unwrap(),
        DeviceBuffer::zeroed(device, LEN).unwrap(),
        PinnedBuffer::zeroed(device, LEN).unwrap(),
    );
    let mut pooled = (
        UnifiedBuffer::zeroed_in(&pools.0, LEN).unwrap(),
        DeviceBuffer::zeroed_in(&*pools.2, LEN).unwrap(),
        PinnedBuffer::zeroed_in(&pools.1, LEN).unwrap(),
    );
    let add = Add::load(device);
    macro_rules! launch {
        ($($buffer:expr),*) => {$(
            add.launch(stream, LEN, (&mut $buffer, LEN as u32, 2000u32)).unwrap();
        )*};
    }
    launch!(
        buffers.0, buffers.1, buffers.2, pooled.0, pooled.1, pooled.2
    );
    All {
        _buffers: buffers,
        _pooled: pooled,
        _pools: pools,
        _add: add,
    }
}

#[test]
fn with_buffers_in_a_static() {
    static KEPT: OnceLock<(All, Stream, Device)> = OnceLock::new();
    ends_well("with_buffers_in_a_static", || {
        let (device, stream) = device();
        assert!(KEPT.set((all(&device, &stream), stream, device)).is_ok());
        std::process::exit(42);
    });
}

#[test]
fn with_leaked_buffers() {
    ends_well("with_leaked_buffers", || {
        let (device, stream) = device();
        std::mem::forget((all(&device, &stream), stream, device));
        std::process::exit(42);
    });
}

#[test]
fn with_buffers_in_a_thread_local() {
    thread_local!(static KEPT: std::cell::OnceCell<(All, Stream, Device)> = const { std::cell::OnceCell::new() });
    ends_well("with_buffers_in_a_thread_local", || {
        // Dropped while its thread ends.
        let thread = std::thread::spawn(|| {
            let (device, stream) = device();
            KEPT.with(|kept| assert!(kept.set((all(&device, &stream), stream, device)).is_ok()));
        });
        thread.join().unwrap();
        std::process::exit(42);
    });
}

#[test]
fn with_threads_at_work_and_the_reclaim_thread_busy() {
    ends_well("with_threads_at_work_and_the_reclaim_thread_busy", || {
        let (device, stream) = device();
        let kept = all(&device, &stream);
        let (started, at_work) = std::sync::mpsc::channel();
        for _ in 0..3 {
            let (device, started) = (device.clone(), started.clone());
            std::thread::spawn(move || {
                let stream = device.create_stream().unwrap();
                loop {
                    // In use when they are dropped: the reclaim thread waits and frees.
                    drop(all(&device, &stream));
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

type Check = Box<dyn FnOnce() + Send>;

fn at_exit(handler: extern "C" fn()) {
    // SAFETY: the handler exists until the process ends, and a panic in it aborts.
    #[allow(unsafe_code, reason = "atexit is a C function")]
    let code = unsafe { libc::atexit(handler) };
    assert_eq!(code, 0);
}

/// A call of CUDA in another thread can crash while CUDA's exit handlers run.
#[test]
fn the_reclaim_thread_calls_nothing_while_cuda_ends() {
    ends_well("the_reclaim_thread_calls_nothing_while_cuda_ends", || {
        let at_the_end = at_the_end();
        let (sim, runtime) = unwatched();
        let (device, stream) = on(&runtime, 0);
        without_pools(&device);
        let add = Add::load(&device);
        let mut buffers: Vec<_> = (0..50)
            .map(|_| UnifiedBuffer::<u32>::zeroed(&device, 1 << 18).unwrap())
            .collect();
        device.synchronize().unwrap();
        let paused = sim.as_ref().map(Sim::pause);
        for buffer in &mut buffers {
            add.launch(&stream, 1 << 18, (buffer, 1u32 << 18, 1u32))
                .unwrap();
        }
        // In use.
        drop(buffers);
        let waiting = sim.is_some().then(|| {
            let waiting = std::thread::spawn(move || runtime.reclaim().unwrap());
            std::thread::sleep(Duration::from_millis(20));
            waiting
        });
        at_the_end(Box::new(move || {
            let Some((sim, waiting)) = sim.zip(waiting) else {
                return;
            };
            let before = sim.trace().len();
            // The work ends, and the buffers could be freed.
            drop(paused);
            std::thread::sleep(Duration::from_millis(100));
            let trace = sim.trace();
            assert!(trace.len() == before, "{:?}", trace[before].name);
            // A thread that waits for the frees does not wait for ever.
            waiting.join().unwrap();
        }));
        std::process::exit(42);
    });
}

/// What a thread of a program does with the library.
#[derive(Clone, Copy, Debug)]
enum Does {
    Allocate,
    Launch,
    Query,
    Copy,
    Access,
    Await,
    Profile,
}

impl Does {
    const ALL: [Self; 7] = [
        Self::Allocate,
        Self::Launch,
        Self::Query,
        Self::Copy,
        Self::Access,
        Self::Await,
        Self::Profile,
    ];

    /// Does it for ever, and sends a message after each round.
    fn for_ever(self, device: &Device, at_work: &Sender<()>) -> cuda_um::Result<()> {
        const LEN: usize = 100_000;
        const STAGED: usize = 4 << 20;
        let (stream, add) = (device.create_stream()?, Add::load(device));
        let mut managed = UnifiedBuffer::<u32>::zeroed(device, LEN)?;
        let mut staged = DeviceBuffer::<u8>::zeroed(device, STAGED)?;
        let (from, mut to) = (vec![1u8; STAGED], vec![0u8; STAGED]);
        for round in 0.. {
            match self {
                Self::Allocate => {
                    drop(DeviceBuffer::<u32>::zeroed(device, LEN)?);
                    drop(UnifiedBuffer::<u32>::zeroed(device, LEN)?);
                    drop(PinnedBuffer::<u32>::zeroed(device, LEN)?);
                    drop(RegisteredBuffer::from_vec(device, vec![0u32; LEN])?);
                }
                Self::Launch => {
                    add.launch(&stream, LEN, (&mut managed, LEN as u32, 1u32))?;
                    managed.fill_on(1, &stream)?;
                    if device.capabilities().concurrent_managed_access {
                        managed.prefetch_on(Location::Host, &stream)?;
                    }
                    // A simulator's queue has no limit, and an exit handler that frees memory waits for all work.
                    if round % 16 == 0 {
                        stream.synchronize()?;
                    }
                }
                Self::Query => {
                    stream.is_idle()?;
                    stream.record()?.is_complete()?;
                    device.memory_info()?;
                }
                Self::Copy => {
                    staged.copy_from_host(&from)?;
                    staged.copy_to_host(&mut to)?;
                }
                Self::Access => {
                    managed.fill_on(1, &stream)?;
                    managed.host_mut()?[0] = 1;
                }
                Self::Await => {
                    managed.fill_on(1, &stream)?;
                    pollster::block_on(managed.host_async())?;
                }
                Self::Profile => profile(device),
            }
            let _ = at_work.send(());
        }
        Ok(())
    }
}

#[cfg(feature = "profile")]
fn profile(device: &Device) {
    // The process may not have the permission.
    let profiler = cuda_um::profile::Profiler::start(device.runtime());
    let _ = profiler.map(|profiler| profiler.stop().unwrap());
}

#[cfg(not(feature = "profile"))]
fn profile(_: &Device) {}

/// Starts two threads for each of `Does` that the device allows beside others, and returns when all are at work. A thread that fails or
/// panics aborts the process.
fn at_work(device: &Device) {
    std::panic::set_hook(Box::new(|panic| {
        eprintln!("{panic}");
        std::process::abort();
    }));
    // Without concurrent access, the guard of a stopped thread would keep later launches out.
    let guards = device.capabilities().concurrent_managed_access;
    let all = Does::ALL
        .into_iter()
        .filter(|does| guards || !matches!(does, Does::Access | Does::Await));
    for does in all.clone().chain(all) {
        let (device, (at_work, is_at_work)) = (device.clone(), channel());
        std::thread::spawn(move || {
            let result = does.for_ever(&device, &at_work);
            panic!("{does:?}: {result:?}");
        });
        is_at_work.recv().unwrap();
    }
}

#[test]
fn threads_of_the_program_stop_at_their_next_call() {
    ends_well("threads_of_the_program_stop_at_their_next_call", || {
        let at_the_end = at_the_end();
        let (sim, runtime) = unwatched();
        let device = runtime.device(0).unwrap();
        without_pools(&device);
        at_work(&device);
        at_the_end(Box::new(move || {
            let Some(sim) = sim else { return };
            let before = sim.trace().len();
            std::thread::sleep(Duration::from_millis(200));
            assert_eq!(sim.trace().len(), before, "calls after the end");
        }));
        std::process::exit(42);
    });
}

/// Threads of the program stop with what they own, but without locks of the library.
#[test]
fn a_later_exit_handler_works_with_what_stopped_threads_used() {
    let name = "a_later_exit_handler_works_with_what_stopped_threads_used";
    ends_well(name, || {
        let at_the_end = at_the_end();
        let (sim, runtime) = unwatched();
        let (device, stream) = on(&runtime, 0);
        at_work(&device);
        at_the_end(Box::new(move || {
            // On a GPU, CUDA has ended.
            if sim.is_none() {
                return;
            }
            let add = Add::load(&device);
            let mut managed = UnifiedBuffer::<u32>::zeroed(&device, 1000).unwrap();
            add.launch(&stream, 1000, (&mut managed, 1000u32, 7u32))
                .unwrap();
            assert_eq!(managed.host().unwrap()[999], 7);
            let data = vec![3u8; 32 << 20];
            let mut staged = DeviceBuffer::from_slice(&device, &data).unwrap();
            staged.copy_from_host(&data).unwrap();
            assert_eq!(staged.to_vec().unwrap()[..], data);
            device.set_transfer_options(TransferOptions::default().threads(2));
            drop((managed, staged));
            device.trim();
            device.synchronize().unwrap();
            runtime.reclaim().unwrap();
        }));
        std::process::exit(42);
    });
}

/// The stopped thread never drops its guard.
#[test]
fn a_later_exit_handler_does_not_wait_for_a_guard_of_a_stopped_thread() {
    let name = "a_later_exit_handler_does_not_wait_for_a_guard_of_a_stopped_thread";
    ends_well(name, || {
        let at_the_end = at_the_end();
        let sim = Sim::builder().gpu(Gpu::NoConcurrentAccess).build().unwrap();
        let (device, stream) = on(&cuda_um_testkit::open(&sim), 0);
        device.set_non_concurrent_access(NonConcurrentAccess::Wait);
        let add = Add::load(&device);
        let mut buffer = UnifiedBuffer::<u32>::zeroed(&device, 1000).unwrap();
        let (started, is_started) = channel();
        let other = device.clone();
        std::thread::spawn(move || {
            let guarded = UnifiedBuffer::<u32>::zeroed(&other, 1000).unwrap();
            let _guard = guarded.host().unwrap();
            started.send(()).unwrap();
            loop {
                other.memory_info().unwrap();
            }
        });
        is_started.recv().unwrap();
        at_the_end(Box::new(move || {
            let refused = add.launch(&stream, 1000, (&mut buffer, 1000u32, 1u32));
            let refused = refused.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Busy);
        }));
        std::process::exit(42);
    });
}

/// The thread is in a call that takes longer than the end of the process waits for it.
#[test]
fn a_later_exit_handler_does_not_wait_for_the_turn_of_a_stopped_thread() {
    let name = "a_later_exit_handler_does_not_wait_for_the_turn_of_a_stopped_thread";
    ends_well(name, || {
        let at_the_end = at_the_end();
        let sim = Sim::builder().gpu(Gpu::NoConcurrentAccess).build().unwrap();
        let (device, stream) = on(&cuda_um_testkit::open(&sim), 0);
        let buffer = UnifiedBuffer::<u32>::zeroed(&device, 1000).unwrap();
        let mut used = UnifiedBuffer::<u32>::zeroed(&device, 1000).unwrap();
        let (started, is_started) = channel();
        std::thread::spawn(move || {
            // SAFETY: the closure enqueues nothing.
            #[allow(unsafe_code, reason = "work of another library that takes long")]
            let _ = unsafe {
                stream.enqueue_foreign((&mut used,), |_| {
                    started.send(()).unwrap();
                    std::thread::sleep(2 * HANGS);
                })
            };
        });
        is_started.recv().unwrap();
        at_the_end(Box::new(move || {
            let refused = buffer.host().map(drop).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Busy);
            let refused = pollster::block_on(buffer.host_async()).map(drop);
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::Busy);
            // The gate is as before.
            assert!(buffer.try_host().is_err());
        }));
        std::process::exit(42);
    });
}

/// Receives a message when a thread waits for a device.
fn waiting(sim: &Sim) -> Receiver<()> {
    let (waits, is_waiting) = channel();
    sim.on_wait(move |_| {
        let _ = waits.send(());
    });
    is_waiting
}

/// True when the kernel `add` of [`waits`] ends.
static KERNEL_ENDED: AtomicBool = AtomicBool::new(false);

/// Ends some time after the process begins to end.
fn waits(_: &mut LaunchContext<'_>) -> Result<(), ReferenceError> {
    while !process_end::is_ending() {
        std::thread::yield_now();
    }
    std::thread::sleep(Duration::from_millis(50));
    KERNEL_ENDED.store(true, Ordering::Release);
    Ok(())
}

#[test]
fn the_end_waits_for_calls_that_take_long() {
    static ENDED: Mutex<Option<Instant>> = Mutex::new(None);
    extern "C" fn before_the_library() {
        *ENDED.lock().unwrap() = Some(Instant::now());
    }
    ends_well("the_end_waits_for_calls_that_take_long", || {
        let at_the_end = at_the_end();
        let sim = Sim::builder().build().unwrap();
        let (device, stream) = on(&cuda_um_testkit::open(&sim), 0);
        // SAFETY: the reference uses no memory.
        #[allow(unsafe_code, reason = "a reference that waits")]
        unsafe {
            register_kernel("add", waits);
        }
        let module = Module::load(&device, ADD_PTX).unwrap();
        let kernel = Add(module.kernel("add").unwrap());
        let mut buffer = UnifiedBuffer::<u32>::zeroed(&device, 1).unwrap();
        kernel
            .launch(&stream, 1, (&mut buffer, 1u32, 1u32))
            .unwrap();
        let is_waiting = waiting(&sim);
        std::thread::spawn(move || stream.synchronize());
        is_waiting.recv().unwrap();
        at_exit(before_the_library);
        at_the_end(Box::new(|| {
            let waited = ENDED.lock().unwrap().unwrap().elapsed();
            let is_ended = KERNEL_ENDED.load(Ordering::Acquire);
            assert!(is_ended || waited >= Duration::from_secs(1), "{waited:?}");
        }));
        std::process::exit(42);
    });
}

#[test]
fn the_first_query_of_devices_is_enough() {
    ends_well("the_first_query_of_devices_is_enough", || {
        let at_the_end = at_the_end();
        let runtime = unwatched().1;
        runtime.device_count().unwrap();
        at_the_end(Box::new(|| assert!(process_end::is_ending())));
        std::process::exit(42);
    });
}

/// The threads that would run its work have stopped.
#[test]
fn a_later_exit_handler_awaits_a_future() {
    ends_well("a_later_exit_handler_awaits_a_future", || {
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
    let name = "a_future_whose_work_was_stopped_ends_with_an_error";
    ends_well(name, || {
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

#[test]
fn from_another_thread_while_main_works() {
    ends_well("from_another_thread_while_main_works", || {
        let (device, stream) = device();
        std::thread::spawn(|| std::process::exit(42));
        loop {
            stream.is_idle().unwrap();
            drop(UnifiedBuffer::<u32>::zeroed(&device, 1000).unwrap());
        }
    });
}

/// The thread that runs the exit handlers is one of the library.
#[test]
fn in_the_work_of_a_future() {
    ends_well("in_the_work_of_a_future", || {
        let (device, stream) = device();
        let _kept = all(&device, &stream);
        let ends = cuda_um::unblock(|| std::process::exit(42));
        pollster::block_on(ends).unwrap_or_else(|error| panic!("{error}"));
    });
}

/// The only case that ends the process: the caller's memory would be released while a device may use it.
#[test]
fn borrowed_memory_that_no_call_can_wait_for() {
    let name = "borrowed_memory_that_no_call_can_wait_for";
    let (status, said) = child(name, || {
        let (sim, device, stream) = cuda_um_testkit::simulated(Gpu::H200);
        let add = Add::load(&device);
        let _ = RegisteredBuffer::scope(&device, &mut [0u32; 1000], |memory| {
            add.launch(&stream, 1000, (memory, 1000u32, 1u32)).unwrap();
            for call in [
                "cudaStreamSynchronize",
                "cudaEventSynchronize",
                "cudaDeviceSynchronize",
            ] {
                let refused = Fail::call(call).with(cudaError::cudaErrorInvalidValue);
                sim.fail(refused.from_then_on());
            }
        });
        std::process::exit(42);
    });
    assert_eq!(status.signal(), Some(libc::SIGABRT), "{status}");
    let why = "a device may still use memory that goes back to its owner";
    assert!(said.contains(why), "{said}");
}
