//! When the library drops the owner of another library's memory: its drop may take any lock of the program.

use super::{at, owner};
use cuda_um::{Device, DeviceBuffer, Stream, UnifiedBuffer};
use cuda_um_sim::Gpu;
use cuda_um_testkit::watchdog::watch;
use cuda_um_testkit::{Add, Checked, simulated_with, unpooled, without_pools};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

const MIB: usize = 1 << 20;

/// An import of 1,000 bytes of `theirs`.
fn import(device: &Device, address: *const u8, owner: impl Send + 'static) -> DeviceBuffer<u8> {
    let address = at(address);
    // SAFETY: each caller passes an owner that keeps the memory, or keeps it itself, and uses it only through the import.
    unsafe { DeviceBuffer::from_foreign(device, address, 1000, owner) }.unwrap()
}

/// Counts its drop under a lock of the program.
struct Locks(Arc<Mutex<u32>>);

impl Drop for Locks {
    fn drop(&mut self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) += 1;
    }
}

/// Drops an import while work uses it, and lets that work end. The drop of its owner takes the lock.
fn drop_in_use(sim: &Checked, device: &Device, stream: &Stream, lock: &Arc<Mutex<u32>>) {
    let theirs = DeviceBuffer::<u8>::zeroed(device, 1000).unwrap();
    device.synchronize().unwrap();
    let owner = (Locks(Arc::clone(lock)), theirs);
    let mut ours = import(device, owner.1.as_ptr(), owner);
    let paused = sim.pause();
    ours.fill_on(1, stream).unwrap();
    drop((ours, paused));
    while !stream.is_idle().unwrap() {
        std::thread::yield_now();
    }
}

/// claim 7
#[test]
fn a_program_may_call_the_library_under_a_lock_that_an_owners_drop_takes() {
    for gpu in [Gpu::H200, Gpu::NoConcurrentAccess] {
        let (sim, device, stream) = unpooled(gpu);
        let _watchdog = watch();
        let add = Add::load(&device);
        let mut data = UnifiedBuffer::<u32>::zeroed(&device, 10).unwrap();
        let mut memory = DeviceBuffer::<u32>::zeroed(&device, 10).unwrap();
        let lock = Arc::default();
        {
            let _program = Mutex::lock(&lock).unwrap();
            drop_in_use(&sim, &device, &stream, &lock);
            data.fill_on(1, &stream).unwrap();
            add.run(&stream, &mut data, 10, 1);
            stream.copy(&data, &mut memory).unwrap();
            assert_eq!(memory.to_vec().unwrap(), [2; 10]);
            assert_eq!(data.host().unwrap()[9], 2);
            let _outcome = data.prefetch_on(&device, &stream).unwrap();
            drop(UnifiedBuffer::<u32>::zeroed(&device, 10).unwrap());
            // SAFETY: the closure enqueues nothing itself.
            let inside = unsafe {
                stream.enqueue_foreign((&mut data,), |_| memory.fill_on(3, &stream).unwrap())
            };
            inside.unwrap();
            stream.synchronize().unwrap();
        }
        device.runtime().reclaim().unwrap();
        assert_eq!(*lock.lock().unwrap(), 1);
    }
}

/// claim 7: The allocation needs memory that is about to come, and no owner's drop.
#[test]
fn a_refused_allocation_waits_for_no_owners_drop() {
    let (sim, device, stream) = simulated_with(|builder| builder.total_memory_bytes(64 << 20));
    without_pools(&device);
    let mut large = DeviceBuffer::<u8>::zeroed(&device, 40 * MIB).unwrap();
    let lock = Arc::default();
    let _program = Mutex::lock(&lock).unwrap();
    drop_in_use(&sim, &device, &stream, &lock);
    let paused = sim.pause();
    large.fill_on(1, &stream).unwrap();
    drop(large);
    let (ended, end) = mpsc::channel();
    // The program waits for a thread, which waits for memory.
    std::thread::spawn(move || {
        let again = DeviceBuffer::<u8>::zeroed(&device, 40 * MIB).map(drop);
        let _ = ended.send(again.is_ok());
    });
    drop(paused);
    let is_ok = end.recv_timeout(Duration::from_secs(3));
    assert_eq!(is_ok, Ok(true), "the allocation does not end");
}

/// claim 7: The owner of each import is the import before it.
#[test]
fn a_chain_of_owners_needs_no_deep_stack() {
    struct Link(
        Arc<Mutex<Vec<usize>>>,
        #[allow(dead_code, reason = "dropped after it")] Option<DeviceBuffer<u8>>,
    );
    impl Drop for Link {
        fn drop(&mut self) {
            let here = 0u8;
            self.0.lock().unwrap().push((&raw const here).addr());
        }
    }
    let (sim, device, stream) = unpooled(Gpu::H200);
    let theirs = DeviceBuffer::<u8>::zeroed(&device, 1000).unwrap();
    for in_use in [false, true] {
        device.synchronize().unwrap();
        let stacks = Arc::new(Mutex::new(Vec::new()));
        let link = |before| Link(Arc::clone(&stacks), before);
        let mut chain = import(&device, theirs.as_ptr(), link(None));
        for _ in 1..100 {
            chain = import(&device, theirs.as_ptr(), link(Some(chain)));
        }
        let paused = sim.pause();
        if in_use {
            chain.fill_on(1, &stream).unwrap();
        }
        drop((chain, paused));
        device.runtime().reclaim().unwrap();
        let stacks = stacks.lock().unwrap();
        let used = stacks.iter().max().unwrap() - stacks.iter().min().unwrap();
        assert_eq!(stacks.len(), 100);
        assert!(used < 16 << 10, "{used} bytes of stack, in use: {in_use}");
    }
}

/// The machine checks that nothing is left.
#[test]
fn memory_that_is_dropped_in_use_keeps_no_handle() {
    let (sim, device, stream) = unpooled(Gpu::H200);
    let (counted, drops) = owner();
    let theirs = DeviceBuffer::<u8>::zeroed(&device, 1000).unwrap();
    let mut own = UnifiedBuffer::<u8>::zeroed(&device, 1000).unwrap();
    device.synchronize().unwrap();
    let mut ours = import(&device, theirs.as_ptr(), (counted, theirs));
    // The last handle may wait.
    let held = sim.hold(0);
    own.fill_on(1, &stream).unwrap();
    ours.fill_on(1, &stream).unwrap();
    drop((own, ours));
    drop((stream, device));
    drop(held);
    let _watchdog = watch();
    while drops() == 0 {
        std::thread::yield_now();
    }
}
