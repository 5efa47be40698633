//! Threads that share storage.

use super::shared::{floats, storages};
use crate::support::on_each_preset;
use std::sync::mpsc;
use std::time::Duration;
use std::{panic, thread};
use um_backend::{CudaError, DType, ErasedBuffer, HostBuffer, Result, SharedBuffer};

#[test]
fn a_panic_releases_the_storage_and_writes_no_copy_back() {
    on_each_preset(
        |builder| builder,
        |machine| {
            for (kind, all) in storages(&machine.backend(), 2) {
                let of = all.clone();
                let panics = panic::catch_unwind(panic::AssertUnwindSafe(move || {
                    let mut data = of.host_mut::<f32>().unwrap();
                    data[0] = 5.0;
                    let was_copy = data.is_copy();
                    panic::resume_unwind(Box::new(was_copy));
                }));
                let was_copy = *panics.unwrap_err().downcast::<bool>().unwrap();
                assert_eq!(floats(&all)[0], if was_copy { 0.0 } else { 5.0 }, "{kind}");
            }
        },
    );
}

#[test]
fn a_thread_never_waits_for_its_own_guard() {
    let all = of_host();
    let mut other = all.view(0..2).unwrap();
    let (read, again) = (all.read().unwrap(), other.read().unwrap());
    held(other.write().map(drop), "2 read guards of this thread");
    drop(again);
    held(
        other.host_mut::<f32>().map(drop),
        "a read guard of this thread",
    );
    drop(read);
    // Also if it is the part of a task.
    for is_of_task in [false, true] {
        let write = match is_of_task {
            false => all.write().unwrap().into_erased(),
            true => pollster::block_on(all.write_async()).unwrap(),
        };
        for refused in [
            other.write().map(drop),
            other.read().map(drop),
            other.host::<f32>().map(drop),
            other.make_unique(),
        ] {
            held(refused, "a write guard of this thread");
        }
        let busy = |result: Result<()>| assert!(matches!(result, Err(CudaError::Busy { .. })));
        busy(other.try_read().map(drop));
        busy(other.try_write().map(drop));
        drop(write);
    }
    other.write().unwrap();
}

/// Requires the refusal of a call that would wait for these guards.
fn held(result: Result<()>, guards: &str) {
    match result {
        Err(CudaError::WouldDeadlock { held, .. }) => assert_eq!(held, guards),
        other => panic!("{other:?}"),
    }
}

/// Four elements in memory of the host, which needs no device.
fn of_host() -> SharedBuffer {
    let bytes = Box::new(HostBuffer::<u8>::zeroed(16).unwrap());
    SharedBuffer::new(ErasedBuffer::from_bytes(bytes, DType::F32).unwrap())
}

/// A writer waits for readers, and new readers wait for the writer; a thread that reads already may read again.
#[test]
fn threads_wait_for_each_other() {
    let all = of_host();
    let first = all.read().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| all.copy_from_host(&[7f32; 4]).unwrap());
        // The writer waits if another thread's reader has to.
        let is_waited_for = || {
            let look = || all.try_read().err().map(|error| error.to_string());
            thread::scope(|scope| scope.spawn(look).join().unwrap())
        };
        let refusal = loop {
            match is_waited_for() {
                Some(refusal) => break refusal,
                None => thread::sleep(Duration::from_millis(1)),
            }
        };
        assert!(refusal.contains("in use by a read guard"), "{refusal}");
        let again = all.read().unwrap();
        let after = scope.spawn(|| all.host::<f32>().unwrap()[0]);
        assert_eq!(again.bytes().to_vec().unwrap(), [0; 16]);
        drop((first, again));
        assert_eq!(after.join().unwrap(), 7.0, "the writer was first");
    });
}

#[test]
fn many_threads_add_to_one_storage() {
    let all = of_host();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..25 {
                    all.host_mut::<f32>().unwrap()[0] += 1.0;
                    assert!(all.host::<f32>().unwrap()[0] > 0.0);
                }
            });
        }
    });
    // A part ends its access on any thread.
    let part = all.write().unwrap().into_erased();
    let moved = thread::spawn(move || part.typed::<f32>().unwrap().read_one(0).unwrap());
    assert_eq!(moved.join().unwrap(), 100.0);
    assert!(all.is_unique() && all.try_write().is_ok());
}

/// `x += y`.
fn add_assign(x: &SharedBuffer, y: &SharedBuffer) -> Result<()> {
    let ([y], [mut x]) = SharedBuffer::lock([y], [x])?;
    let (y, mut sum) = (y.typed::<f32>()?.host()?, x.typed_mut::<f32>()?.host_mut()?);
    sum.iter_mut().zip(&*y).for_each(|(sum, y)| *sum += y);
    sum.close()
}

/// The threads have memory of the host, which needs no device, and stay until the process ends if they wait for each other.
#[test]
fn two_threads_that_add_to_each_others_operand_end() {
    let (x, y, z) = (of_host(), of_host(), of_host());
    let (ended, end) = mpsc::channel();
    let sides = [[&x, &y, &z], [&y, &x, &z], [&z, &y, &x]];
    for side in sides.map(|side| side.map(SharedBuffer::clone)) {
        let ended = ended.clone();
        thread::spawn(move || {
            let [own, other, third] = &side;
            for _ in 0..2000 {
                add_assign(own, other).unwrap();
                // Two reads of one storage, also past a thread that waits to write it.
                let ([a, b], [_, _]) = SharedBuffer::lock([own, own], [third, other]).unwrap();
                assert_eq!(a.bytes().len(), b.bytes().len());
            }
            ended.send(()).unwrap();
        });
    }
    for _ in sides {
        let outcome = end.recv_timeout(Duration::from_secs(60));
        assert!(outcome.is_ok(), "bug3: the threads wait for each other");
    }
}

/// A call that waits has nothing: neither what it took before nor a place in the way of the thread that it waits for.
#[test]
fn a_call_that_waits_for_one_storage_has_no_other() {
    let (x, y) = (of_host(), of_host());
    let kept = y.write().unwrap();
    thread::scope(|scope| {
        let locks = scope.spawn(|| SharedBuffer::lock([&x], [&y]).map(drop));
        for _ in 0..50 {
            x.write().unwrap();
            thread::sleep(Duration::from_millis(1));
        }
        assert!(!locks.is_finished());
        drop(kept);
        locks.join().unwrap().unwrap();
    });
    // Its own guards, and those that it would have itself, are refused.
    let (kept, part) = (x.read().unwrap(), x.view(0..1).unwrap());
    drop(SharedBuffer::lock([&x, &part], []).unwrap());
    for refused in [
        SharedBuffer::lock([&y], [&x]).map(drop),
        SharedBuffer::lock([&part], [&x]).map(drop),
        SharedBuffer::lock([], [&y, &x, &y]).map(drop),
    ] {
        assert!(
            matches!(refused, Err(CudaError::WouldDeadlock { .. })),
            "{refused:?}"
        );
    }
    drop(kept);
    assert!(y.try_write().is_ok() && x.try_write().is_ok());
}
