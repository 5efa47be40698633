//! Threads that call CUDA while the process ends stop, and keep nothing that a later exit handler needs.

use super::*;

/// What a thread of a program does with the library.
#[derive(Clone, Copy, Debug)]
enum Does {
    Allocate,
    Launch,
    Query,
    Copy,
    Access,
    Await,
}

impl Does {
    const ALL: [Self; 6] = {
        use Does::*;
        [Allocate, Launch, Query, Copy, Access, Await]
    };

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
            }
            let _ = at_work.send(());
        }
        Ok(())
    }
}

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
    ends_well(|| {
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
    ends_well(|| {
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
            add.run(&stream, &mut managed, 1000, 7);
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
    ends_well(|| {
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
    ends_well(|| {
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

/// The returned function gives the time since the library's exit handler began. This must be called after the library used CUDA.
pub(super) fn the_wait_of_the_end() -> impl Fn() -> Duration {
    static ENDED: Mutex<Option<Instant>> = Mutex::new(None);
    extern "C" fn before_the_library() {
        *ENDED.lock().unwrap() = Some(Instant::now());
    }
    at_exit(before_the_library);
    || ENDED.lock().unwrap().unwrap().elapsed()
}

#[test]
fn the_end_waits_for_calls_that_take_long() {
    ends_well(|| {
        let at_the_end = at_the_end();
        let sim = Sim::builder().build().unwrap();
        let (device, stream) = on(&cuda_um_testkit::open(&sim), 0);
        let told: &Told = Box::leak(Box::new(Told::load(&device)));
        let mut buffer = UnifiedBuffer::<u32>::zeroed(&device, 1).unwrap();
        told.launch(&stream, &mut buffer);
        // The kernel ends some time after the process begins to end.
        std::thread::spawn(|| {
            while !process_end::is_ending() {
                std::thread::yield_now();
            }
            std::thread::sleep(Duration::from_millis(50));
            told.tell();
        });
        let is_waiting = waiting(&sim);
        std::thread::spawn(move || stream.synchronize());
        is_waiting.recv().unwrap();
        let waited = the_wait_of_the_end();
        at_the_end(Box::new(move || {
            let (waited, is_ended) = (waited(), told.has_ended());
            assert!(is_ended || waited >= Duration::from_secs(1), "{waited:?}");
        }));
        std::process::exit(42);
    });
}

/// The thread is in a call that the end of the process does not wait for any longer, and which makes many calls of CUDA.
#[test]
fn a_copy_of_many_pieces_stops_at_its_next_piece() {
    static PIECES: AtomicUsize = AtomicUsize::new(0);
    ends_well(|| {
        let at_the_end = at_the_end();
        let sim = Sim::builder().build().unwrap();
        let (device, _stream) = on(&cuda_um_testkit::open(&sim), 0);
        let options = TransferOptions::default().threads(1);
        device.set_transfer_options(options.ring_bytes(2 * 16384));
        let mut buffer = DeviceBuffer::<u8>::zeroed(&device, 1 << 20).unwrap();
        device.synchronize().unwrap();
        let (begins, begun) = channel();
        let (goes_on, go_on) = channel();
        std::thread::spawn(move || {
            let go_on = Mutex::new(go_on);
            buffer.host_overwrite(.., |_, slots| {
                if PIECES.fetch_add(1, Ordering::Relaxed) == 0 {
                    begins.send(()).unwrap();
                    go_on.lock().unwrap().recv().unwrap();
                }
                slots.fill_with(|_| 1)
            })
        });
        begun.recv().unwrap();
        at_the_end(Box::new(move || {
            let before = sim.trace().len();
            goes_on.send(()).unwrap();
            // Enough for all pieces.
            std::thread::sleep(Duration::from_millis(200));
            assert_eq!(sim.trace().len(), before, "calls after the end");
            assert!(PIECES.load(Ordering::Relaxed) <= 2);
        }));
        std::process::exit(42);
    });
}
