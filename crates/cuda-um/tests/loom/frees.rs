//! Deferred frees: each entry is released once, a wait is for what was there at its call, and no panic stops the others.

use crate::context::device::Device;
use crate::context::op::Op;
use crate::context::reclaim::{Deferred, Reclaim, Which};
use crate::context::stream::Stream;
use crate::context::tracker::{Access, Use};
use crate::models::checker::{model, preempted};
use crate::models::engine::{Engine, engine};
use crate::models::machine::{device_of, work};
use crate::resource::allocation::Allocation;
use crate::resource::memory_resource::MemoryResource;
use crate::resource::separate::DeviceMemory;
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::sync::thread;
use std::sync::Arc;

/// Entries that count how often they are released.
#[derive(Default)]
struct Entries([AtomicUsize; 3]);

impl Entries {
    fn entry(self: &Arc<Self>, device: &Device, number: usize, uses: &[Use]) -> Deferred {
        let entries = Arc::clone(self);
        Deferred {
            device: Arc::clone(device.state()),
            uses: uses.iter().cloned().collect(),
            what: String::new(),
            bytes: 0,
            waits: false,
            is_foreign: false,
            release: Box::new(move || {
                entries.0[number].fetch_add(1, Ordering::AcqRel);
                Ok(())
            }),
        }
    }

    fn released(&self, number: usize) -> usize {
        self.0[number].load(Ordering::Acquire)
    }
}

fn reclaim() -> Arc<Reclaim> {
    Arc::new(Reclaim::default())
}

#[test]
fn each_entry_is_released_once_before_a_wait_that_comes_after_it_returns() {
    preempted(3, || {
        let (reclaim, entries) = (reclaim(), Arc::new(Entries::default()));
        let device = device_of(0);
        let (its, of, on) = (Arc::clone(&reclaim), Arc::clone(&entries), device.clone());
        // It polls the other entry, too, if it comes first.
        let other = thread::spawn(move || its.defer(of.entry(&on, 1, &[])));
        reclaim.defer(entries.entry(&device, 0, &[]));
        let _ = reclaim.flush(Which::Own);
        assert_eq!(entries.released(0), 1);
        other.join().unwrap();
        let _ = reclaim.flush(Which::Own);
        assert_eq!((entries.released(0), entries.released(1)), (1, 1));
        assert_eq!(reclaim.released(), 2);
    });
}

#[test]
fn an_entry_waits_for_its_work() {
    model(|| {
        let (reclaim, entries) = (reclaim(), Arc::new(Entries::default()));
        let on = device_of(0);
        let stream = on.create_stream().unwrap();
        work(&stream, 1).unwrap();
        let used = Use {
            stream: Arc::clone(stream.inner()),
            seq: stream.inner().number(),
        };
        let raw = stream.as_raw().addr();
        let runs = thread::spawn(move || engine(|cuda| cuda.run(raw)));
        let mut entry = entries.entry(&on, 0, &[used]);
        let release = entry.release;
        entry.release = Box::new(move || {
            assert!(engine(|cuda| cuda.is_done(1)), "freed in use");
            release()
        });
        reclaim.defer(entry);
        let _ = reclaim.flush(Which::Own);
        assert_eq!(entries.released(0), 1);
        assert!(reclaim.take_error().is_none());
        runs.join().unwrap();
    });
}

/// claim 32
#[test]
fn a_wait_is_not_for_what_is_added_meanwhile() {
    preempted(2, || {
        let (reclaim, is_over) = (reclaim(), Arc::new(AtomicBool::new(false)));
        let device = device_of(0);
        let stream = device.create_stream().unwrap();
        work(&stream, 1).unwrap();
        stream.inner().number();
        let (its, over, on) = (Arc::clone(&reclaim), Arc::clone(&is_over), device.clone());
        let other = thread::spawn(move || {
            let entries = Arc::new(Entries::default());
            while !over.load(Ordering::Acquire) {
                // No drop releases it, because the device is not idle.
                let waits = true;
                let entry = entries.entry(&on, 0, &[]);
                its.defer(Deferred { waits, ..entry });
                thread::yield_now();
            }
        });
        let _ = reclaim.flush(Which::Own);
        is_over.store(true, Ordering::Release);
        other.join().unwrap();
        let _ = reclaim.flush(Which::Own);
        stream.synchronize().unwrap();
    });
}

/// claim 33
#[test]
fn a_panic_stops_no_other_entry() {
    preempted(2, || {
        let (reclaim, entries) = (reclaim(), Arc::new(Entries::default()));
        let device = device_of(0);
        let mut panics = entries.entry(&device, 0, &[]);
        // Does not print, as `panic!` does.
        panics.release = Box::new(|| std::panic::resume_unwind(Box::new("on purpose")));
        let (its, of) = (Arc::clone(&reclaim), Arc::clone(&entries));
        let other = thread::spawn(move || {
            its.defer(of.entry(&device, 1, &[]));
            let _ = its.flush(Which::Own);
            assert_eq!(of.released(1), 1);
        });
        reclaim.defer(panics);
        let _ = reclaim.flush(Which::Own);
        assert!(reclaim.take_error().is_some(), "it is not silent");
        other.join().unwrap();
        assert_eq!(reclaim.released(), 2);
    });
}

/// A buffer of 1 KiB, and work on the stream that uses it.
fn buffer_in_use(memory: &DeviceMemory, stream: &Stream) -> Allocation {
    let buffer = memory.allocate(1 << 10).unwrap();
    let at = buffer.pointer().as_ptr().addr();
    let part = [buffer.part_of(0..buffer.bytes(), Access::Write)];
    let op = Op::with_host(part[0].device(), &part);
    stream.submit(&op, |_| work(stream, at)).unwrap();
    buffer
}

#[test]
fn memory_that_threads_drop_in_use_is_freed_after_its_work() {
    preempted(2, || {
        let device = device_of(2 << 10);
        let (memory, stream) = (DeviceMemory::new(&device), device.create_stream().unwrap());
        let [first, second] = [(); 2].map(|()| buffer_in_use(&memory, &stream));
        let raw = stream.as_raw().addr();
        let works = thread::spawn(move || engine(|cuda| cuda.run(raw)));
        let other = thread::spawn(move || drop(first));
        drop(second);
        other.join().unwrap();
        device.runtime().reclaim().unwrap();
        // `Engine::misuse` says if a piece was freed in use.
        assert_eq!(engine(Engine::slabs), 0);
        works.join().unwrap();
    });
}

#[test]
fn an_allocation_gets_memory_that_was_dropped_in_use() {
    preempted(3, || {
        let device = device_of(1 << 10);
        let (memory, stream) = (DeviceMemory::new(&device), device.create_stream().unwrap());
        let former = buffer_in_use(&memory, &stream);
        let raw = stream.as_raw().addr();
        let works = thread::spawn(move || engine(|cuda| cuda.run(raw)));
        drop(former);
        let next = memory.allocate(1 << 10);
        assert!(next.is_ok(), "the memory is free when its work is done");
        works.join().unwrap();
    });
}
