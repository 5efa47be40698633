//! What must not happen under the arena's lock: a subscriber of `tracing` is called, a thread waits for the device or for a file.

mod support;

use std::cell::Cell;
use std::io::Write as _;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError, RwLock, mpsc};
use std::thread;
use std::time::Duration;

use cuda_um_testkit::watchdog::watch;
use support::{Machine, SLOT};
use tracing::{Event, Metadata, Subscriber, span};
use um_backend::Buffer;
use um_backend::cuda_um::{DeviceBuffer, UnifiedBuffer};
use um_backend::sim::Gpu;
use um_residency::{Arena, Error, Homed, InOut, Input, Output, Role, working_set};

/// Runs at every event of the library, on any thread.
type Hook = Arc<dyn Fn() + Send + Sync>;
static HOOK: RwLock<Option<Hook>> = RwLock::new(None);

/// The subscriber of this process.
struct Calls;

impl Calls {
    fn back(&self) {
        thread_local!(static IS_AT_IT: Cell<bool> = const { Cell::new(false) });
        let hook = HOOK.read().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(hook) = hook
            && !IS_AT_IT.replace(true)
        {
            hook();
            IS_AT_IT.set(false);
        }
    }
}

impl Subscriber for Calls {
    fn enabled(&self, of: &Metadata<'_>) -> bool {
        of.target() == "cuda_um"
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, _: &Event<'_>) {
        self.back();
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// Runs a test with a hook, alone.
fn with_hook(hook: Hook, test: impl FnOnce()) {
    static ALONE: Mutex<()> = Mutex::new(());
    static ONCE: Once = Once::new();
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    ONCE.call_once(|| tracing::subscriber::set_global_default(Calls).unwrap());
    *HOOK.write().unwrap() = Some(hook);
    let _watchdog = watch();
    test();
    let hook = HOOK.write().unwrap().take();
    drop(hook);
}

fn in_file(arena: &Arena, value: u32, role: Role) -> Homed<u32> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytemuck::cast_slice(&vec![value; SLOT]))
        .unwrap();
    Homed::from_file(arena, file, (0, SLOT), role).unwrap()
}

/// A buffer in pinned memory, a unified one, and two in files, named.
fn buffers(arena: &Arena) -> Vec<Homed<u32>> {
    let pinned =
        |value: u32| Homed::from_slice(arena, &vec![value; SLOT], Role::ReadWrite).unwrap();
    let of_file = |value| in_file(arena, value, Role::ReadWrite);
    let unified = |value| {
        let below = arena.device();
        let home = UnifiedBuffer::from_slice(below, &vec![value; SLOT]).unwrap();
        Homed::from_unified(arena, home, Role::ReadWrite).unwrap()
    };
    let mut made = vec![pinned(0), of_file(1), unified(2), of_file(3)];
    for (number, buffer) in made.iter_mut().enumerate() {
        buffer.set_name(&format!("buffer {number}"));
    }
    made
}

/// Everything that an arena does: sets in an order that repeats, host access, flushes, and a drop of an arena in use.
fn everything(machine: &Machine, begun: impl FnOnce(&Arena)) {
    let (arena, stream) = (machine.arena(2), &machine.stream);
    begun(&arena);
    let mut all = buffers(&arena);
    let pass = || {
        for buffer in &all {
            let mut guard = working_set(stream, InOut(buffer))?;
            let value = guard.to_vec()?[SLOT / 2];
            guard.view_mut().fill_on(value + 10, stream)?;
        }
        let mut first = working_set(stream, Output(&all[0]))?;
        first.view_mut().fill_on(60, stream)?;
        Ok::<(), Error>(())
    };
    for _ in 0..6 {
        pass().unwrap();
    }
    assert_eq!(arena.stats().followed, 5);
    for (number, buffer) in all.iter_mut().enumerate() {
        let found = buffer.to_vec().unwrap();
        let expected = number as u32 + 60;
        assert!(found.iter().all(|&value| value == expected), "{number}");
        buffer.copy_from_host_at(1, &[3]).unwrap();
        buffer.fill(7).unwrap();
        buffer.write_back().unwrap();
    }
}

/// What a subscriber uses.
type Kept = (Arena, Homed<u32>);

/// A subscriber may use the arena whose work it hears of, on any thread.
#[test]
fn a_subscriber_may_use_the_arena_at_every_event() {
    let machine = Machine::new(Gpu::H200);
    let kept: Arc<Mutex<Option<Kept>>> = Arc::default();
    let (seen, stream) = (Arc::new(AtomicUsize::new(0)), machine.stream.clone());
    let hook = {
        let (kept, seen) = (Arc::clone(&kept), Arc::clone(&seen));
        move || {
            let kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            let Some((arena, mine)) = kept.as_ref() else {
                return;
            };
            seen.fetch_add(1, Ordering::Relaxed);
            // The lock of the arena is free, for this thread and for others.
            let sets = arena.stats().sets;
            thread::scope(|scope| {
                scope.spawn(|| assert!(arena.stats().sets >= sets));
            });
            if let Ok(guard) = working_set(&stream, Input(mine)) {
                assert_eq!(guard.len(), SLOT);
            }
            assert_eq!(mine.read_one(5).unwrap(), 9);
        }
    };
    with_hook(Arc::new(hook), || {
        let (arena, stream) = (machine.arena(3), &machine.stream);
        let mine = Homed::from_slice(&arena, &vec![9; SLOT], Role::ReadOnly).unwrap();
        let all = buffers(&arena);
        *kept.lock().unwrap() = Some((arena.clone(), mine));
        for round in 0..3 {
            for buffer in &all {
                let mut guard = working_set(stream, InOut(buffer)).unwrap();
                let value = guard.to_vec().unwrap()[1];
                guard.view_mut().fill_on(value + 10, stream).unwrap();
                drop(guard);
                assert_eq!(buffer.read_one(1).unwrap(), value + 10, "{round}");
            }
        }
        drop(all);
        let (_, mine) = kept.lock().unwrap().take().unwrap();
        drop(mine);
        everything(&machine, |_| ());
    });
    // On a GPU, the simulator's events are not there.
    assert!(seen.load(Ordering::Relaxed) > 10);
}

/// The arena of the test below.
static NEWEST: Mutex<Option<Arena>> = Mutex::new(None);

/// At every wait for the device, other threads may use the arena.
#[test]
fn no_wait_is_under_the_lock() {
    let machine = Machine::new(Gpu::H200);
    let Some(sim) = &machine.sim else { return };
    let _watchdog = watch();
    let waits = Arc::new(AtomicUsize::new(0));
    let blocked = Arc::new(Mutex::new(Vec::new()));
    let (counted, named) = (Arc::clone(&waits), Arc::clone(&blocked));
    sim.on_wait(move |call| {
        counted.fetch_add(1, Ordering::Relaxed);
        let Some(arena) = NEWEST.lock().unwrap().clone() else {
            return;
        };
        let (done, is_done) = mpsc::channel();
        thread::spawn(move || done.send(arena.stats()));
        if is_done.recv_timeout(Duration::from_secs(10)).is_err() {
            named.lock().unwrap().push(call);
        }
    });
    let begun = |arena: &Arena| *NEWEST.lock().unwrap() = Some(arena.clone());
    everything(&machine, begun);
    *NEWEST.lock().unwrap() = None;
    sim.on_wait(|_| ());
    assert!(waits.load(Ordering::Relaxed) > 10);
    assert_eq!(*blocked.lock().unwrap(), [""; 0]);
}

/// While a thread writes a buffer back to its file, which waits for the device, others go on.
#[test]
fn a_slow_file_stops_only_those_who_need_it() {
    let machine = Machine::new(Gpu::H200);
    let Some(sim) = &machine.sim else { return };
    let _watchdog = watch();
    let (arena, stream) = (machine.arena(2), &machine.stream);
    let slow = in_file(&arena, 1, Role::ReadWrite);
    let read_only = |value| Homed::from_slice(&arena, &vec![value; SLOT], Role::ReadOnly).unwrap();
    let (fast, next) = (read_only(2), read_only(3));
    let changed = working_set(stream, InOut(&slow));
    changed.unwrap().view_mut().fill_on(8, stream).unwrap();
    drop(working_set(stream, Input(&fast)).unwrap());
    drop(working_set(stream, Input(&slow)).unwrap());
    drop(working_set(stream, Input(&fast)).unwrap());
    machine.device.synchronize().unwrap();
    let paused = sim.pause();
    // Held up by the pause, and so the write back after it is.
    working_set(stream, InOut(&slow))
        .unwrap()
        .view_mut()
        .fill_on(9, stream)
        .unwrap();
    drop(working_set(stream, Input(&fast)).unwrap());
    let (waits, is_waiting) = mpsc::channel();
    sim.on_wait(move |_| {
        let _ = waits.send(());
    });
    thread::scope(|scope| {
        let evicts = scope.spawn(|| drop(working_set(stream, Input(&next)).unwrap()));
        // It writes back. If the buffer were read before, another one would leave.
        is_waiting.recv().unwrap();
        let reads = scope.spawn(|| slow.read_one(7).unwrap());
        while arena.stats().waits == 0 {
            thread::yield_now();
        }
        // A set that is there, and one that reads the buffer that is being written back.
        drop(working_set(stream, Input(&fast)).unwrap());
        drop(working_set(stream, Input(&slow)).unwrap());
        assert!(!evicts.is_finished() && !reads.is_finished());
        drop(paused);
        evicts.join().unwrap();
        assert_eq!(reads.join().unwrap(), 9);
    });
    sim.on_wait(|_| ());
    assert_eq!(slow.to_vec().unwrap(), vec![9; SLOT]);
}

/// A buffer that is dropped while another thread writes it to its file does not wait, and its slots are free afterwards.
#[test]
fn a_buffer_is_dropped_while_its_file_is_written() {
    let machine = Machine::new(Gpu::H200);
    let Some(sim) = &machine.sim else { return };
    let _watchdog = watch();
    let (arena, stream) = (machine.arena(2), &machine.stream);
    let dropped = in_file(&arena, 1, Role::ReadWrite);
    let whole = Homed::from_slice(&arena, &vec![5u32; 2 * SLOT], Role::ReadOnly).unwrap();
    let paused = sim.pause();
    let mut guard = working_set(stream, InOut(&dropped)).unwrap();
    guard.view_mut().fill_on(8, stream).unwrap();
    drop(guard);
    let (waits, is_waiting) = mpsc::channel();
    sim.on_wait(move |_| {
        let _ = waits.send(());
    });
    thread::scope(|scope| {
        let evicts = scope.spawn(|| drop(working_set(stream, Input(&whole)).unwrap()));
        is_waiting.recv().unwrap();
        drop(dropped);
        assert!(!evicts.is_finished());
        drop(paused);
        evicts.join().unwrap();
    });
    sim.on_wait(|_| ());
    let found = working_set(stream, Input(&whole)).unwrap().to_vec();
    assert_eq!(found.unwrap(), vec![5; 2 * SLOT]);
    assert_eq!(arena.stats().resident_bytes, arena.budget_bytes());
}

/// Asks the arena when it is dropped.
struct Asks(Arena, mpsc::Sender<u64>);

impl Drop for Asks {
    fn drop(&mut self) {
        self.1.send(self.0.stats().sets).unwrap();
    }
}

/// The arena transfers under its lock.
#[test]
fn an_owner_of_other_memory_may_use_the_arena_when_it_is_dropped() {
    let machine = Machine::new(Gpu::H200);
    let Some(sim) = &machine.sim else { return };
    let _watchdog = watch();
    let (arena, stream) = (machine.arena(2), &machine.stream);
    let all = buffers(&arena);
    let (asks, asked) = mpsc::channel();
    let theirs = DeviceBuffer::<u32>::zeroed(&machine.device, 10).unwrap();
    machine.device.synchronize().unwrap();
    let address = NonNull::new(theirs.as_ptr().cast_mut()).unwrap();
    let owner = (Asks(arena.clone(), asks), theirs);
    #[allow(unsafe_code, reason = "an import")]
    // SAFETY: the owner keeps the memory, and nothing else uses it.
    let ours = unsafe { DeviceBuffer::from_foreign(&machine.device, address, 10, owner) };
    let (mut ours, paused) = (ours.unwrap(), sim.pause());
    ours.fill_on(1, stream).unwrap();
    drop((ours, paused));
    for buffer in all.iter().chain(&all) {
        let mut guard = working_set(stream, InOut(buffer)).unwrap();
        guard.view_mut().fill_on(5, stream).unwrap();
    }
    machine.device.runtime().reclaim().unwrap();
    assert!(asked.recv().unwrap() <= 8);
}
