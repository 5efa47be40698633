//! Misbehaving executors and wakers: the library's futures neither end the process nor hang, and a poll never waits.

use cuda_um::{DeviceBuffer, UnifiedBuffer, buffer::TransferOptions};
use cuda_um_sim::{Gpu, PauseGuard};
use cuda_um_testkit::simulated;
use cuda_um_testkit::watchdog::watch;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// A waker that records its call, and panics at the call and at its drop.
struct Panics {
    called: mpsc::Sender<()>,
    is_armed: Arc<AtomicBool>,
}

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let _ = self.called.send(());
        panic!("a waker, on purpose");
    }
}

impl Drop for Panics {
    fn drop(&mut self) {
        if self.is_armed.load(Ordering::Relaxed) && !std::thread::panicking() {
            let _ = self.called.send(());
            panic!("the destructor of a waker, on purpose");
        }
    }
}

fn poll<F: Future + ?Sized>(future: Pin<&mut F>, waker: &Waker) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(waker))
}

/// claim 40
#[test]
fn a_waker_that_panics_ends_nothing() {
    // The process was aborted, because the waker was called at a place from which a panic cannot unwind.
    for gpu in [Gpu::H200, Gpu::NoConcurrentAccess] {
        let (sim, device, stream) = simulated(gpu);
        let _watchdog = watch();
        let mut buffer = UnifiedBuffer::<u32>::zeroed(&device, 100).unwrap();
        device.synchronize().unwrap();
        let paused = sim.pause();
        buffer.fill_on(7, &stream).unwrap();
        let (called, calls) = mpsc::channel();
        let is_armed = Arc::new(AtomicBool::new(true));
        let panics = || {
            let (called, is_armed) = (called.clone(), Arc::clone(&is_armed));
            Waker::from(Arc::new(Panics { called, is_armed }))
        };
        let mut future = Box::pin(buffer.host_async());
        let mut given_up = Box::pin(buffer.host_async());
        let forgotten = Box::pin(async { buffer.host_async().await.map(|guard| guard[0]) });
        let mut forgotten = std::mem::ManuallyDrop::new(forgotten);
        for _ in 0..2 {
            // The later waker replaces the earlier one. The last handle of each is dropped in another place.
            let waker = panics();
            assert!(poll(future.as_mut(), &waker).is_pending());
            assert!(poll(given_up.as_mut(), &waker).is_pending());
            assert!(poll(forgotten.as_mut(), &waker).is_pending());
            let dropped = catch_unwind(AssertUnwindSafe(|| drop(waker)));
            assert!(dropped.is_ok(), "the futures have it");
        }
        drop(given_up);
        drop(paused);
        calls.recv().unwrap();
        let guard = pollster::block_on(future).unwrap();
        assert_eq!(guard[0], 7);
        drop(guard);
        is_armed.store(false, Ordering::Relaxed);
    }
}

/// A waker that uses the future that it wakes, on the thread on which it is called.
struct Uses {
    future: Mutex<Option<Pin<Box<dyn Future<Output = u32> + Send>>>>,
    is_woken: AtomicBool,
    drops: bool,
    outcome: mpsc::Sender<Option<u32>>,
}

impl Wake for Uses {
    fn wake(self: Arc<Self>) {
        self.is_woken.store(true, Ordering::SeqCst);
        // If the caller is a poll, it holds the future and checks again later.
        while let Ok(mut place) = self.future.try_lock()
            && self.is_woken.swap(false, Ordering::SeqCst)
            && let Some(mut future) = place.take()
        {
            if self.drops {
                drop(future);
                self.outcome.send(None).unwrap();
                return;
            }
            let waker = Waker::from(Arc::clone(&self));
            match poll(future.as_mut(), &waker) {
                Poll::Ready(read) => self.outcome.send(Some(read)).unwrap(),
                Poll::Pending => *place = Some(future),
            }
        }
    }
}

/// claim 40
#[test]
fn a_waker_may_poll_or_drop_the_future() {
    for gpu in [Gpu::H200, Gpu::NoConcurrentAccess] {
        for drops in [false, true] {
            let (sim, device, stream) = simulated(gpu);
            let _watchdog = watch();
            let mut buffer = UnifiedBuffer::<u32>::zeroed(&device, 100).unwrap();
            device.synchronize().unwrap();
            let paused = sim.pause();
            buffer.fill_on(7, &stream).unwrap();
            let (outcome, outcomes) = mpsc::channel();
            let future = Box::pin(async move {
                let mut back = [0; 100];
                buffer.copy_to_host_async(&mut back).await.unwrap();
                back[99]
            });
            let waker = Arc::new(Uses {
                future: Mutex::new(Some(future)),
                is_woken: AtomicBool::new(false),
                drops,
                outcome,
            });
            {
                let mut future = waker.future.lock().unwrap();
                let again = Waker::from(Arc::clone(&waker));
                assert!(poll(future.as_mut().unwrap().as_mut(), &again).is_pending());
            }
            drop(paused);
            assert_eq!(outcomes.recv().unwrap(), (!drops).then_some(7));
        }
    }
}

/// True if a poll returns pending while the device is held. If the poll waits for the device, the device is released after some
/// time.
fn is_pending_while_held<F: Future>(paused: PauseGuard, future: Pin<&mut F>) -> bool {
    let (polled, is_polled) = mpsc::channel();
    let resume = std::thread::spawn(move || {
        let in_time = is_polled.recv_timeout(Duration::from_secs(10));
        drop(paused);
        in_time.is_ok()
    });
    let is_pending = poll(future, Waker::noop()).is_pending();
    let _ = polled.send(());
    is_pending && resume.join().unwrap()
}

/// claim 40
#[test]
fn a_poll_of_a_copy_waits_for_no_work_of_others() {
    // It waited for work that other threads had put on the device's default stream, or for a kernel that used the target.
    for gpu in [Gpu::H200, Gpu::NoConcurrentAccess] {
        let (sim, device, stream) = simulated(gpu);
        let _watchdog = watch();
        // Less than a piece of such a copy.
        device.set_transfer_options(TransferOptions::default().threads(1).ring_bytes(1 << 20));
        let source = vec![3u32; 4 << 20];
        let mut buffer = DeviceBuffer::<u32>::zeroed(&device, source.len()).unwrap();
        let mut other = DeviceBuffer::<u32>::zeroed(&device, 100).unwrap();
        buffer.copy_from_host(&source).unwrap();
        device.synchronize().unwrap();

        let paused = sim.pause();
        other.copy_from_host(&[1; 100]).unwrap();
        let mut back = vec![0; source.len()];
        let mut copy = Box::pin(buffer.copy_to_host_async(&mut back));
        assert!(is_pending_while_held(paused, copy.as_mut()), "to the host");
        pollster::block_on(copy).unwrap();
        assert!(back == source);

        let paused = sim.pause();
        buffer.fill_on(4, &stream).unwrap();
        let mut copy = Box::pin(buffer.copy_from_host_async(&source));
        assert!(
            is_pending_while_held(paused, copy.as_mut()),
            "from the host"
        );
        pollster::block_on(copy).unwrap();
        assert!(buffer.to_vec().unwrap() == source);
    }
}

/// The payload of a panic.
struct PanicsInDrop;

impl Drop for PanicsInDrop {
    fn drop(&mut self) {
        panic!("the drop of a payload panics");
    }
}

/// claim 40: As many as the pool has threads: if each ended one, later work would wait for ever.
#[test]
fn a_payload_that_no_future_takes_ends_no_thread() {
    let _watchdog = watch();
    for _ in 0..300 {
        let (go, gone) = std::sync::mpsc::channel::<()>();
        let mut future = Box::pin(cuda_um::unblock::<()>(move || {
            // Until the future is dropped.
            let _ = gone.recv();
            std::panic::panic_any(PanicsInDrop)
        }));
        let mut context = Context::from_waker(Waker::noop());
        assert!(future.as_mut().poll(&mut context).is_pending());
        drop(future);
        drop(go);
    }
    assert_eq!(pollster::block_on(cuda_um::unblock(|| Ok(7))).unwrap(), 7);
}
