//! The simulator holds no lock while foreign code runs: `tracing` subscribers, handlers of faults in the caller's memory, the function of
//! `Sim::on_wait`. If it did, each of these tests would hang; a watchdog then ends the test.
#![allow(unsafe_code, reason = "the table is C")]

#[path = "runtime/support.rs"]
#[allow(dead_code, reason = "shared with another test binary")]
mod support;

use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::thread::ThreadId;
use std::time::Duration;

use cuda_um_sim::{Fail, Gpu, Sim};
use cuda_um_sys::{cudaError, cudaMemcpyKind};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::support::{Cuda, MIB, PTX, bytes, call, h200, ok};

/// Fails the test if `body` hangs.
fn within_a_minute(body: impl FnOnce() + Send + 'static) {
    let (done, is_done) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        body();
        let _ = done.send(());
    });
    match is_done.recv_timeout(Duration::from_secs(60)) {
        Ok(()) | Err(mpsc::RecvTimeoutError::Disconnected) => {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("it hangs"),
    }
}

type Watch = Box<dyn Fn() + Send + Sync>;

/// The subscriber of this process: runs the current test's function at each event.
struct Watcher;

static WATCH: Mutex<Option<Arc<Watch>>> = Mutex::new(None);

impl Subscriber for Watcher {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {
        let watch = WATCH.lock().unwrap().clone();
        if let Some(watch) = watch {
            watch();
        }
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// Runs `watch` at each event while `body` runs; one test at a time.
fn watched(watch: impl Fn() + Send + Sync + 'static, body: impl FnOnce()) {
    static ONE: Mutex<()> = Mutex::new(());
    static SET: OnceLock<()> = OnceLock::new();
    let _one = ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    SET.get_or_init(|| tracing::subscriber::set_global_default(Watcher).unwrap());
    *WATCH.lock().unwrap() = Some(Arc::new(Box::new(watch)));
    body();
    *WATCH.lock().unwrap() = None;
}

/// Loads modules and looks kernels up that are refused with an event; returns the number of events.
fn refusals(cuda: &Cuda) -> usize {
    let driver = cuda.table.driver().unwrap();
    let mut module = null_mut();
    let refused = [
        c"no PTX",
        c".version 99.0\n.target sm_60\n.entry f() { ret; }",
        c".version 6.4\n.target sm_250\n.entry f() { ret; }",
    ];
    for image in refused {
        let code = call!(driver, cuModuleLoadData(&mut module, image.as_ptr().cast()));
        assert_ne!(code.0, 0);
    }
    let (image, mut function) = (std::ffi::CString::new(PTX).unwrap(), null_mut());
    let code = call!(driver, cuModuleLoadData(&mut module, image.as_ptr().cast()));
    assert_eq!(code.0, 0);
    let name = c"unsupported".as_ptr();
    let code = call!(driver, cuModuleGetFunction(&mut function, module, name));
    assert_eq!(code.0, 209);
    refused.len() + 1
}

#[test]
fn a_subscriber_may_call_cuda_and_touch_managed_memory() {
    within_a_minute(|| {
        static EVENTS: AtomicUsize = AtomicUsize::new(0);
        let cuda = h200();
        let (sim, table) = (cuda.sim.clone(), cuda.table.clone());
        let data = cuda.managed(MIB);
        let address = data as usize;
        let watch = move || {
            // The page is on the device, so that the touch faults.
            bytes(address as *mut u8, 1)[0] += 1;
            ok(call!(table, cudaDeviceSynchronize()));
            assert!(sim.counters().cpu_faults > 0);
            EVENTS.fetch_add(1, Ordering::Relaxed);
        };
        watched(watch, || {
            cuda.run("write", data, MIB);
            let expected = refusals(&cuda);
            assert_eq!(EVENTS.load(Ordering::Relaxed), expected);
        });
    });
}

#[test]
fn a_subscriber_may_wait_for_the_stream_whose_kernel_failed() {
    within_a_minute(|| {
        let (told, is_told) = mpsc::channel();
        let told = Mutex::new(told);
        let cuda = h200();
        let (data, stream, table) = (cuda.managed(MIB), cuda.stream(), cuda.table.clone());
        let (address, handle, sim) = (data as usize, stream as usize, cuda.sim.clone());
        let watch = move || {
            bytes(address as *mut u8, 1)[0] += 1;
            let code = call!(table, cudaStreamSynchronize(handle as *mut _));
            let _ = told.lock().unwrap().send((code, sim.misuse().len()));
        };
        watched(watch, || {
            cuda.run("write", data, MIB);
            cuda.launch("read", data, 8 * MIB, stream);
            let (code, misuse) = is_told.recv().unwrap();
            assert_eq!(
                (code, misuse),
                (cudaError::cudaErrorIllegalAddress, 1),
                "the event comes when the kernel has ended"
            );
        });
    });
}

#[test]
fn a_subscriber_that_panics_harms_nothing() {
    within_a_minute(|| {
        let cuda = h200();
        let (data, stream) = (cuda.device(16), cuda.stream());
        let watch = || panic!("the subscriber panics");
        watched(watch, || {
            refusals(&cuda);
            cuda.launch("read", data, 8 * MIB, stream);
            let found = call!(cuda.table, cudaStreamSynchronize(stream));
            assert_eq!(found, cudaError::cudaErrorIllegalAddress);
            // The thread of the stream still runs further work.
            let Cuda { sim, table } = cuda;
            drop(table);
            drop(sim);
        });
    });
}

#[test]
fn waits_are_told_before_they_begin() {
    within_a_minute(|| {
        let cuda = h200();
        let told: Arc<Mutex<Vec<(&str, ThreadId)>>> = Arc::default();
        let (data, pinned, stream, event) = (
            cuda.device(16),
            cuda.pinned(16),
            cuda.stream(),
            cuda.event(),
        );
        let (mut own, keep) = ([0u8; 16], told.clone());
        let sim = cuda.sim.clone();
        cuda.sim.on_wait(move |call| {
            let _ = (sim.now(), sim.misuse());
            keep.lock()
                .unwrap()
                .push((call, std::thread::current().id()));
        });
        ok(call!(
            cuda.table,
            cudaMemsetAsync(data.cast(), 1, 16, stream)
        ));
        ok(call!(cuda.table, cudaEventRecord(event, stream)));
        ok(call!(cuda.table, cudaEventSynchronize(event)));
        ok(call!(cuda.table, cudaEventQuery(event)));
        ok(call!(cuda.table, cudaStreamQuery(stream)));
        ok(call!(cuda.table, cudaStreamSynchronize(stream)));
        ok(call!(cuda.table, cudaDeviceSynchronize()));
        let kind = cudaMemcpyKind::cudaMemcpyDefault;
        let to = own.as_mut_ptr().cast();
        ok(call!(
            cuda.table,
            cudaMemcpyAsync(to, data.cast(), 16, kind, stream)
        ));
        ok(call!(
            cuda.table,
            cudaMemcpyAsync(pinned.cast(), data.cast(), 16, kind, stream)
        ));
        ok(call!(
            cuda.table,
            cudaMemcpy(pinned.cast(), data.cast(), 16, kind)
        ));
        cuda.free(data);
        ok(call!(cuda.table, cudaFreeHost(pinned.cast())));
        let this = std::thread::current().id();
        let waits = [
            "cudaEventSynchronize",
            "cudaStreamSynchronize",
            "cudaDeviceSynchronize",
            "cudaMemcpyAsync",
            "cudaMemcpy",
            "cudaFree",
            "cudaFreeHost",
        ];
        assert_eq!(*told.lock().unwrap(), waits.map(|call| (call, this)));
        cuda.sim.on_wait(|_| panic!("the function panics"));
        ok(call!(cuda.table, cudaDeviceSynchronize()));
        // A call that fails instead of running does not wait.
        cuda.sim.on_wait(|_| unreachable!());
        cuda.sim.fail(Fail::call("cudaDeviceSynchronize"));
        assert_ne!(
            call!(cuda.table, cudaDeviceSynchronize()),
            cudaError::cudaSuccess
        );
    });
}

#[test]
fn what_is_told_of_waits_is_dropped_with_no_lock_held() {
    struct Last(Sim);
    impl Drop for Last {
        fn drop(&mut self) {
            let _ = (self.0.now(), self.0.leaks());
            self.0.on_wait(|_| {});
        }
    }
    within_a_minute(|| {
        let cuda = h200();
        let last = Last(cuda.sim.clone());
        cuda.sim
            .on_wait(move |_| assert!(last.0.misuse().is_empty()));
        ok(call!(cuda.table, cudaDeviceSynchronize()));
        cuda.sim
            .on_wait(|_| unreachable!("its drop has put another one there"));
        let second = Arc::new(AtomicBool::new(false));
        let told = second.clone();
        cuda.sim
            .on_wait(move |_| told.store(true, Ordering::Relaxed));
        ok(call!(cuda.table, cudaDeviceSynchronize()));
        assert!(second.load(Ordering::Relaxed));
    });
}

/// Memory of this test: its first touch waits until another thread has used the simulator.
mod page {
    use super::*;

    pub(super) static ADDRESS: AtomicUsize = AtomicUsize::new(0);
    pub(super) static ASKED: AtomicBool = AtomicBool::new(false);
    pub(super) static ANSWERED: AtomicBool = AtomicBool::new(false);
    static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();
    const BYTES: usize = 4096;

    extern "C" fn on_touch(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
        // SAFETY: with SA_SIGINFO the kernel passes a valid `siginfo_t`, which holds the address for SIGSEGV.
        let address = unsafe { (*info).si_addr() } as usize;
        let page = ADDRESS.load(Ordering::Acquire);
        if page != 0 && (page..page + BYTES).contains(&address) {
            ASKED.store(true, Ordering::Release);
            while !ANSWERED.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            let readable = libc::PROT_READ | libc::PROT_WRITE;
            // SAFETY: the page is this test's own mapping.
            unsafe { libc::mprotect(page as *mut libc::c_void, BYTES, readable) };
            return;
        }
        if let Some(before) = BEFORE.get() {
            // SAFETY: the simulator's handler, which takes three arguments; these are the kernel's.
            unsafe {
                let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) =
                    std::mem::transmute(before.sa_sigaction);
                handler(signal, info, context);
            }
        }
    }

    /// Maps the page inaccessible; the simulator's handler is installed already.
    pub(super) fn map() -> *mut u8 {
        // SAFETY: a fresh mapping; the structures are filled before they are used.
        unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let page = libc::mmap(null_mut(), BYTES, libc::PROT_NONE, flags, -1, 0);
            assert_ne!(page, libc::MAP_FAILED);
            let mut action: libc::sigaction = std::mem::zeroed();
            let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) = on_touch;
            action.sa_sigaction = handler as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
            let mut before: libc::sigaction = std::mem::zeroed();
            assert_eq!(libc::sigaction(libc::SIGSEGV, null_mut(), &mut before), 0);
            let _ = BEFORE.set(before);
            assert_eq!(libc::sigaction(libc::SIGSEGV, &action, null_mut()), 0);
            ADDRESS.store(page as usize, Ordering::Release);
            page.cast()
        }
    }
}

/// With a lock held, two simulators that copy from each other's managed memory would wait for each other.
#[test]
fn pageable_memory_is_read_with_no_lock_held() {
    within_a_minute(|| {
        let cuda = Cuda::new(Sim::builder().gpu(Gpu::Gh200));
        let (data, stream) = (cuda.device(4096), cuda.stream());
        let source = page::map();
        let sim = cuda.sim.clone();
        let other = std::thread::spawn(move || {
            while !page::ASKED.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            let now = sim.now();
            page::ANSWERED.store(true, Ordering::Release);
            now
        });
        let kind = cudaMemcpyKind::cudaMemcpyDefault;
        ok(call!(
            cuda.table,
            cudaMemcpyAsync(data.cast(), source.cast(), 4096, kind, stream)
        ));
        cuda.sync(stream);
        other.join().unwrap();
        assert!(page::ANSWERED.load(Ordering::Acquire), "it was touched");
    });
}

#[test]
fn managed_memory_of_another_simulator_is_copied() {
    within_a_minute(|| {
        let (first, second) = (h200(), h200());
        let (from, to) = (first.managed(MIB), second.managed(MIB));
        first.run("write", from, MIB);
        second.run("write", to, MIB);
        second.copy(to, from, MIB);
        let kind = cudaMemcpyKind::cudaMemcpyDefault;
        ok(call!(
            second.table,
            cudaMemcpyAsync(to.cast(), from.cast(), MIB, kind, null_mut())
        ));
        second.sync(null_mut());
        assert_eq!(bytes(to, MIB), [7; MIB]);
        assert!(first.sim.counters().cpu_faults > 0);
    });
}
