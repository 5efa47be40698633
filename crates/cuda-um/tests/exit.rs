//! Processes that end while buffers are alive: they exit normally and do not hang.
//!
//! Each test starts this binary again, to run the child's part of the test.

use cuda_um::sys::cudaError;
use cuda_um::{
    Device, DeviceBuffer, DevicePool, PinnedBuffer, PinnedPool, PoolOptions, RegisteredBuffer,
    Stream, UnifiedBuffer, UnifiedPool,
};
use cuda_um_sim::{Fail, Gpu, PauseGuard, Sim};
use cuda_um_testkit::{Add, again, is_child, on, unwatched, without_pools};
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::sync::{Mutex, OnceLock};
use std::thread::JoinHandle;
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
    _pools: (UnifiedPool, PinnedPool, DevicePool),
    _add: Add,
}

fn all(device: &Device, stream: &Stream) -> All {
    const LEN: usize = 100_000;
    let options = PoolOptions::default().slab_bytes(4 << 20);
    let pools = (
        UnifiedPool::new(device, options).unwrap(),
        PinnedPool::new(device, options).unwrap(),
        DevicePool::new(device, options).unwrap(),
    );
    let mut buffers = (
        UnifiedBuffer::zeroed(device, LEN).unwrap(),
        DeviceBuffer::zeroed(device, LEN).unwrap(),
        PinnedBuffer::zeroed(device, LEN).unwrap(),
    );
    let mut pooled = (
        pools.0.zeroed(LEN).unwrap(),
        pools.2.zeroed(LEN).unwrap(),
        pools.1.zeroed(LEN).unwrap(),
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
                let stream = device.stream().unwrap();
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

/// The C library runs CUDA's exit handlers while other threads run. A call of CUDA in another thread can then crash.
#[test]
fn the_reclaim_thread_calls_nothing_while_cuda_ends() {
    type Paused = (Sim, PauseGuard, JoinHandle<()>);
    static PAUSED: Mutex<Option<Paused>> = Mutex::new(None);
    /// Registered before the library uses CUDA, so it runs after the library's own handler, as CUDA's do.
    extern "C" fn as_cuda_does() {
        let Some((sim, paused, waiting)) = PAUSED.lock().unwrap().take() else {
            return;
        };
        let calls = || sim.trace().len();
        let before = calls();
        // The work ends, and the buffers could be freed.
        drop(paused);
        std::thread::sleep(Duration::from_millis(100));
        if calls() != before {
            eprintln!("{:?} and other calls", sim.trace()[before].name);
            std::process::abort();
        }
        // A thread that waits for the frees does not wait for ever.
        waiting.join().unwrap();
    }
    ends_well("the_reclaim_thread_calls_nothing_while_cuda_ends", || {
        // SAFETY: the handler exists until the process ends, and a panic in it would abort.
        #[allow(unsafe_code, reason = "atexit is a C function")]
        let code = unsafe { libc::atexit(as_cuda_does) };
        assert_eq!(code, 0);
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
        if let Some(sim) = sim {
            let waiting = std::thread::spawn(move || runtime.reclaim().unwrap());
            std::thread::sleep(Duration::from_millis(20));
            *PAUSED.lock().unwrap() = paused.map(|paused| (sim, paused, waiting));
        }
        std::process::exit(42);
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
