//! No wait is endless: not for buffers that other threads continue to add, not for a thread that a panic has ended, and not for
//! the thread's own lock if a `tracing` subscriber calls the library.

use cuda_um::{
    Device, DeviceBuffer, Error, Location, MemoryKind, NonConcurrentAccess, PinnedBuffer, Pool,
    PoolOptions, Stream, UnifiedBuffer, buffer::TransferOptions,
};
use cuda_um_sim::{Fail, Gpu, Leak};
use cuda_um_sys::cudaError;
use cuda_um_testkit::watchdog::watch;
use cuda_um_testkit::{calls, simulated, unpooled};
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError, RwLock};
use tracing::{Event, Metadata, Subscriber, span};

/// Runs at every event and span of the library, on any thread.
type Hook = Arc<dyn Fn() + Send + Sync>;

static HOOK: RwLock<Option<Hook>> = RwLock::new(None);

/// The only subscriber of this process, because the library's own threads use the global one.
struct Calls;

impl Calls {
    fn back(&self) {
        thread_local!(static IS_AT_IT: Cell<bool> = const { Cell::new(false) });
        struct Over;
        impl Drop for Over {
            fn drop(&mut self) {
                IS_AT_IT.set(false);
            }
        }
        let hook = HOOK.read().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(hook) = hook
            && !IS_AT_IT.replace(true)
        {
            let _over = Over;
            hook();
        }
    }
}

impl Subscriber for Calls {
    fn enabled(&self, of: &Metadata<'_>) -> bool {
        of.target() == "cuda_um"
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        self.back();
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, _: &Event<'_>) {
        self.back();
    }

    fn enter(&self, _: &span::Id) {
        self.back();
    }

    fn exit(&self, _: &span::Id) {
        self.back();
    }
}

/// The hook of one test, which has exclusive use of the process until this is dropped.
struct Hooked {
    _alone: MutexGuard<'static, ()>,
}

impl Hooked {
    fn alone() -> Self {
        static ALONE: Mutex<()> = Mutex::new(());
        static ONCE: Once = Once::new();
        ONCE.call_once(|| tracing::subscriber::set_global_default(Calls).unwrap());
        Self {
            _alone: ALONE.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }

    fn set(&self, hook: impl Fn() + Send + Sync + 'static) {
        *HOOK.write().unwrap() = Some(Arc::new(hook));
    }

    fn unset(&self) {
        let hook = HOOK.write().unwrap_or_else(PoisonError::into_inner).take();
        // After the lock is released: the values in the hook send events when they are dropped.
        drop(hook);
    }
}

impl Drop for Hooked {
    fn drop(&mut self) {
        self.unset();
    }
}

/// Runs threads that allocate, use and drop, until this ends.
fn while_others_are_busy(device: &Device, body: impl FnOnce()) {
    struct Over<'a>(&'a AtomicBool);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let (is_over, rounds) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let stream = device.create_stream().unwrap();
                let mut events = VecDeque::new();
                while !is_over.load(Ordering::Relaxed) {
                    let mut buffer = DeviceBuffer::<u8>::zeroed(device, 256 << 10).unwrap();
                    buffer.fill_on(1, &stream).unwrap();
                    drop(buffer);
                    events.push_back(stream.record().unwrap());
                    // The stream always has some work left, but a limited amount.
                    if events.len() > 8 {
                        let earlier = events.pop_front();
                        earlier
                            .iter()
                            .for_each(|event| event.synchronize().unwrap());
                    }
                    rounds.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let _over = Over(&is_over);
        while rounds.load(Ordering::Relaxed) < 20 {
            std::thread::yield_now();
        }
        body();
    });
}

#[test]
fn an_allocation_that_cannot_be_is_refused_while_others_drop_what_is_in_use() {
    let _alone = Hooked::alone();
    let (_sim, device, _) = simulated(Gpu::H200);
    let _watchdog = watch();
    let total = device.memory_info().unwrap().total_bytes;
    while_others_are_busy(&device, || {
        let refused = DeviceBuffer::<u8>::uninit(&device, total * 2).map(drop);
        assert!(matches!(refused, Err(Error::OutOfMemory { .. })));
        let options = PoolOptions::default().limit_bytes(4 << 20);
        let pool = Pool::new(&device, MemoryKind::Managed, options).unwrap();
        let refused = UnifiedBuffer::<u8>::uninit_in(&pool, 8 << 20).map(drop);
        assert!(matches!(refused, Err(Error::OutOfMemory { .. })));
        let pool = Pool::new(&device, MemoryKind::Device, PoolOptions::default()).unwrap();
        let refused = DeviceBuffer::<u8>::uninit_in(&pool, total * 2).map(drop);
        assert!(matches!(refused, Err(Error::OutOfMemory { .. })));
    });
}

#[test]
fn reclaim_returns_while_others_drop_what_is_in_use() {
    let _alone = Hooked::alone();
    let (_sim, device, _) = simulated(Gpu::H200);
    let _watchdog = watch();
    while_others_are_busy(&device, || device.runtime().reclaim().unwrap());
}

/// A payload with a destructor that panics.
struct Payload;

impl Drop for Payload {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("the destructor of a payload, on purpose");
        }
    }
}

#[test]
fn a_subscriber_that_panics_does_not_end_the_thread_that_frees() {
    let hooked = Hooked::alone();
    let (sim, device, stream) = unpooled(Gpu::H200);
    let _watchdog = watch();
    let runtime = device.runtime().clone();
    let mut buffer = DeviceBuffer::<u32>::zeroed(&device, 1000).unwrap();
    device.synchronize().unwrap();
    sim.leaves(1, "its stream is not destroyed", |leak| {
        matches!(leak, Leak::Stream)
    });
    let panics = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&panics);
    hooked.set(move || {
        if std::thread::current().name() == Some("cuda-um-reclaim") {
            count.fetch_add(1, Ordering::Relaxed);
            std::panic::panic_any(Payload);
        }
    });
    let paused = sim.pause();
    buffer.fill_on(1, &stream).unwrap();
    // The free has the last handle of the stream, and reports that the stream cannot be destroyed.
    drop((buffer, stream));
    sim.fail(Fail::call("cudaStreamDestroy"));
    drop(paused);
    runtime.reclaim().unwrap();
    assert_eq!(panics.load(Ordering::Relaxed), 1);
    // Buffers that are dropped later are still freed.
    let stream = device.create_stream().unwrap();
    let mut buffer = DeviceBuffer::<u32>::zeroed(&device, 1000).unwrap();
    let paused = sim.pause();
    buffer.fill_on(1, &stream).unwrap();
    drop(buffer);
    drop(paused);
    runtime.reclaim().unwrap();
}

/// The objects that a subscriber may use.
struct Tools {
    device: Device,
    stream: Stream,
    pools: (Pool, Pool, Pool),
}

impl Tools {
    fn new(device: &Device) -> Self {
        let options = PoolOptions::default().slab_bytes(2 << 20);
        Self {
            device: device.clone(),
            stream: device.create_stream().unwrap(),
            pools: (
                Pool::new(device, MemoryKind::Managed, options).unwrap(),
                Pool::new(device, MemoryKind::Pinned, options).unwrap(),
                Pool::new(device, MemoryKind::Device, options).unwrap(),
            ),
        }
    }

    /// Takes every lock that can be taken. A host guard may cause refusals.
    fn use_all(&self) -> cuda_um::Result<()> {
        let (unified, pinned, on_device) = &self.pools;
        let _trimmed = [unified.trim(), pinned.trim(), on_device.trim()];
        let _stats = [unified.stats(), pinned.stats(), on_device.stats()];
        // Larger than a slab: the pools grow.
        let buffers = (
            UnifiedBuffer::<u8>::uninit_in(unified, 3 << 20)?,
            PinnedBuffer::<u8>::zeroed_in(pinned, 3 << 20)?,
            UnifiedBuffer::<u8>::uninit_in(unified, 100)?,
        );
        self.device.set_transfer_options(TransferOptions::default());
        drop(buffers);
        let mut used = DeviceBuffer::<u32>::zeroed_in(on_device, 1000)?;
        used.fill_on(2, &self.stream)?;
        used.copy_to_host(&mut [0; 1000])?;
        let mut own = UnifiedBuffer::<u32>::zeroed(&self.device, 1000)?;
        own.fill_on(3, &self.stream)?;
        let _ = own.try_host();
        drop((used, own));
        self.device.runtime().reclaim()
    }
}

/// Work of every kind, with separate pools.
fn work(device: &Device) {
    let tools = Tools::new(device);
    let (unified, pinned, on_device) = &tools.pools;
    let stream = device.create_stream().unwrap();
    let numbers = vec![1u32; 1 << 20];
    let mut buffer = UnifiedBuffer::<u32>::zeroed_in(unified, 1 << 20).unwrap();
    let mut target = PinnedBuffer::<u32>::zeroed_in(pinned, 1 << 20).unwrap();
    let mut there = DeviceBuffer::<u32>::zeroed_in(on_device, 1 << 20).unwrap();
    buffer.copy_from_host(&numbers).unwrap();
    there
        .host_overwrite(.., |_, slots| slots.fill_with(|at| at as u32))
        .unwrap();
    stream.copy(&there, &mut target).unwrap();
    stream.copy(&target, &mut buffer).unwrap();
    let _ = buffer.prefetch_on(Location::Host, &stream);
    assert_eq!(buffer.host().unwrap()[1], target.host().unwrap()[1]);
    buffer.fill_on(7, &stream).unwrap();
    there.fill_on(7, &stream).unwrap();
    drop((stream, there, buffer, target));
    let _trimmed = [unified.trim(), pinned.trim(), on_device.trim()];
    device.runtime().reclaim().unwrap();
}

#[test]
fn a_subscriber_may_call_back_at_every_event_and_span() {
    let hooked = Hooked::alone();
    for gpu in [Gpu::H200, Gpu::NoConcurrentAccess] {
        let (_sim, device, _) = simulated(gpu);
        let _watchdog = watch();
        let (tools, called) = (Tools::new(&device), Arc::new(AtomicUsize::new(0)));
        let (count, worked) = (Arc::clone(&called), Arc::new(AtomicUsize::new(0)));
        let done = Arc::clone(&worked);
        let concurrent = device.capabilities().concurrent_managed_access;
        let here = std::thread::current().id();
        hooked.set(move || {
            // Without concurrent access, a host guard of another thread would refuse the work.
            if !concurrent && std::thread::current().id() != here {
                return;
            }
            count.fetch_add(1, Ordering::Relaxed);
            match tools.use_all() {
                Ok(()) => done.fetch_add(1, Ordering::Relaxed),
                // A host guard lives, or another thread is enqueueing.
                Err(Error::Busy { .. }) => 0,
                Err(error) => panic!("{error}"),
            };
        });
        work(&device);
        hooked.unset();
        let (called, worked) = (
            called.load(Ordering::Relaxed),
            worked.load(Ordering::Relaxed),
        );
        assert!(called > 30 && worked > called / 2, "{worked} of {called}");
    }
}

#[test]
fn a_capture_records_nothing_of_a_subscriber() {
    let hooked = Hooked::alone();
    let (_sim, device, stream) = simulated(Gpu::H200);
    let _watchdog = watch();
    let (tools, worked) = (Tools::new(&device), Arc::new(AtomicUsize::new(0)));
    let mut data = DeviceBuffer::<u32>::zeroed(&device, 1000).unwrap();
    let (done, here) = (Arc::clone(&worked), std::thread::current().id());
    hooked.set(move || {
        if std::thread::current().id() == here {
            tools.use_all().unwrap();
            done.fetch_add(1, Ordering::Relaxed);
        }
    });
    let graph = stream
        .capture(|_| data.fill_on(cuda_um::constant(1), &stream))
        .unwrap();
    let mut exec = graph.instantiate().unwrap();
    exec.launch(&stream, (&mut data,)).unwrap();
    hooked.unset();
    assert!(worked.load(Ordering::Relaxed) > 3);
}

#[test]
fn a_subscriber_may_wait_for_a_thread_whose_copy_waits_for_host_guards() {
    // On a device without concurrent access the event of a guard was sent while the gate was closed.
    static OUTPUT: Mutex<()> = Mutex::new(());
    let hooked = Hooked::alone();
    let (_sim, device, stream) = simulated(Gpu::NoConcurrentAccess);
    device.set_non_concurrent_access(NonConcurrentAccess::Wait);
    let _watchdog = watch();
    let (source, seen) = (
        UnifiedBuffer::from_slice(&device, &[5u32; 10]).unwrap(),
        UnifiedBuffer::from_slice(&device, &[6u32; 10]).unwrap(),
    );
    let mut target = UnifiedBuffer::<u32>::zeroed(&device, 10).unwrap();
    let (wanted, taken) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (wants, takes) = (Arc::clone(&wanted), Arc::clone(&taken));
    let here = std::thread::current().id();
    hooked.set(move || {
        if std::thread::current().id() == here {
            // The other thread takes the output, and copies while it has it.
            let count = wants.fetch_add(1, Ordering::SeqCst) + 1;
            while takes.load(Ordering::SeqCst) < count {
                std::thread::yield_now();
            }
            drop(OUTPUT.lock());
        }
    });
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                if taken.load(Ordering::SeqCst) == wanted.load(Ordering::SeqCst) {
                    std::thread::yield_now();
                    continue;
                }
                let _output = OUTPUT.lock();
                taken.fetch_add(1, Ordering::SeqCst);
                stream.copy(&source, &mut target).unwrap();
            }
        });
        let (first, second) = (seen.host().unwrap(), seen.try_host());
        assert_eq!(first[9], 6);
        drop(second);
        drop(first);
        is_over.store(true, Ordering::SeqCst);
    });
    hooked.unset();
    assert_eq!(target.to_vec().unwrap(), [5; 10]);
    assert!(taken.load(Ordering::SeqCst) > 1, "no event");
}

#[test]
fn a_subscriber_may_take_a_guard_on_a_thread_of_a_copy_whose_ring_goes() {
    // On a device without concurrent access the guard waited for the thread that copies, and that thread, which held the ring
    // that new options replaced, waited for the thread of the guard.
    let hooked = Hooked::alone();
    let (sim, device, _) = simulated(Gpu::NoConcurrentAccess);
    let _watchdog = watch();
    let managed = UnifiedBuffer::from_slice(&device, &[5u32; 10]).unwrap();
    let source = vec![7u8; 8 << 20];
    let mut target = DeviceBuffer::<u8>::zeroed(&device, source.len()).unwrap();
    device.synchronize().unwrap();
    let options = TransferOptions::default().threads(2);
    device.set_transfer_options(options.ring_bytes(1 << 20));
    let guards = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&guards);
    hooked.set(move || {
        if std::thread::current().name() == Some("cuda-um-transfer") {
            assert_eq!(managed.host().unwrap()[9], 5);
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    // A helper has one chunk. Whenever it needs the second chunk it tries to allocate it, and gets none.
    let none = Fail::call("cudaHostAlloc").nth(4).from_then_on();
    sim.fail(none.with(cudaError::cudaErrorMemoryAllocation));
    let asked = calls(&sim, "cudaHostAlloc");
    let paused = sim.pause();
    std::thread::scope(|scope| {
        let copy = scope.spawn(|| target.copy_from_host(&source).unwrap());
        // The calling thread has tried to allocate all four chunks, and the helper its second one.
        while calls(&sim, "cudaHostAlloc") < asked + 5 {
            std::thread::yield_now();
        }
        device.set_transfer_options(options.ring_bytes(2 << 20));
        drop(paused);
        copy.join().unwrap();
    });
    sim.clear_failures();
    assert!(target.to_vec().unwrap() == source);
    hooked.unset();
    assert!(guards.load(Ordering::Relaxed) > 0, "a helper said nothing");
}
