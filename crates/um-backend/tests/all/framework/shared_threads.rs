//! Threads that share storage.

use super::shared::{floats, storages};
use crate::support::{on_each, on_each_preset};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;
use std::{panic, thread};
use um_backend::{
    BufferKind, CudaError, DType, ErasedBuffer, HostBuffer, SharedBuffer, dtype::Bool,
};

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
    on_each(|machine| {
        let backend = machine.backend();
        let kind = BufferKind::Unified;
        let all = SharedBuffer::new(backend.create_erased(kind, DType::F32, 4).unwrap());
        let mut other = all.view(0..2).unwrap();
        let text = |error: CudaError| {
            let is_refusal = matches!(
                error,
                CudaError::WouldDeadlock { .. } | CudaError::Busy { .. }
            );
            assert!(is_refusal, "{error:?}");
            error.to_string()
        };
        let advice = "drop it first, split one write guard (`ViewMut::split_at`), copy one part on write (`make_unique`), or wait in tasks (`read_async`, `write_async`)";
        let refused = |call: &str, held: &str| {
            format!("SharedBuffer::{call} could wait for ever for {held} of this thread: {advice}")
        };

        let (read, again) = (all.read().unwrap(), other.read().unwrap());
        assert_eq!(
            text(other.write().unwrap_err()),
            refused("write", "2 read guards")
        );
        assert_eq!(
            text(other.try_write().unwrap_err()),
            "SharedBuffer::try_write: the storage is busy: it is in use by 2 read guards: drop the guards first, or wait with the call without `try_`"
        );
        drop(again);
        let error = other.host_mut::<f32>().unwrap_err();
        assert_eq!(text(error), refused("host_mut", "a read guard"));
        drop(read);

        let write = all.write().unwrap();
        let held = "a write guard";
        assert_eq!(text(other.write().unwrap_err()), refused("write", held));
        assert_eq!(text(other.read().unwrap_err()), refused("read", held));
        assert_eq!(
            text(other.host::<f32>().unwrap_err()),
            refused("host", held)
        );
        assert_eq!(
            text(other.make_unique().unwrap_err()),
            refused("make_unique", held)
        );
        assert_eq!(
            text(other.try_read().unwrap_err()),
            "SharedBuffer::try_read: the storage is busy: it is in use by a write guard: drop the guards first, or wait with the call without `try_`"
        );
        drop(write);
        other.write().unwrap();
    });
}

/// A writer waits for readers, and new readers wait for the writer; a thread that reads already may read again.
#[test]
fn threads_wait_for_each_other() {
    on_each_preset(
        |builder| builder,
        |machine| {
            let backend = machine.backend();
            let kind = BufferKind::Unified;
            let all = SharedBuffer::new(backend.create_erased(kind, DType::U8, 4).unwrap());
            let first = all.read().unwrap();
            let written = AtomicBool::new(false);
            thread::scope(|scope| {
                scope.spawn(|| {
                    let mut guard = all.write().unwrap();
                    guard.copy_from_bytes(&[7; 4]).unwrap();
                    written.store(true, Ordering::SeqCst);
                });
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
                assert!(!written.load(Ordering::SeqCst));
                let again = all.read().unwrap();
                let after = scope.spawn(|| all.host::<u8>().unwrap()[0]);
                assert_eq!(again.bytes().to_vec().unwrap(), [0; 4]);
                drop((first, again));
                assert_eq!(after.join().unwrap(), 7, "the writer was first");
            });
            assert!(written.into_inner());
        },
    );
}

#[test]
fn many_threads_add_to_one_storage() {
    on_each_preset(
        |builder| builder,
        |machine| {
            let backend = machine.backend();
            let kind = BufferKind::Unified;
            let all = SharedBuffer::new(backend.create_erased(kind, DType::Bool, 1).unwrap());
            thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        for _ in 0..25 {
                            all.host_mut::<Bool>().unwrap()[0].0 += 1;
                            assert!(all.host::<Bool>().unwrap()[0].0 > 0);
                        }
                    });
                }
            });
            // A part ends its access on any thread.
            let part = all.write().unwrap().into_erased();
            let moved = thread::spawn(move || part.bytes().read_one(0).unwrap());
            assert_eq!(moved.join().unwrap(), 100);
            assert!(all.is_unique() && all.try_write().is_ok());
        },
    );
}

/// `x += y`.
fn add_assign(x: &SharedBuffer, y: &SharedBuffer) -> Result<(), CudaError> {
    let ([y], [mut x]) = SharedBuffer::lock([y], [x])?;
    let (y, mut sum) = (y.typed::<f32>()?.host()?, x.typed_mut::<f32>()?.host_mut()?);
    sum.iter_mut().zip(&*y).for_each(|(sum, y)| *sum += y);
    sum.close()
}

/// The threads have memory of the host, which needs no device, and stay until the process ends if they wait for each other.
#[test]
fn two_threads_that_add_to_each_others_operand_end() {
    let new = || {
        let bytes = Box::new(HostBuffer::<u8>::zeroed(16).unwrap());
        SharedBuffer::new(ErasedBuffer::from_bytes(bytes, DType::F32).unwrap())
    };
    let (x, y, z) = (new(), new(), new());
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
    on_each(|machine| {
        let backend = machine.backend();
        let new = || backend.create_erased(BufferKind::Unified, DType::F32, 4);
        let [x, y] = [(); 2].map(|()| SharedBuffer::new(new().unwrap()));
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
        let ([first, again], []) = SharedBuffer::lock([&x, &part], []).unwrap();
        drop((first, again));
        for refused in [
            SharedBuffer::lock([&y], [&x]).map(drop),
            SharedBuffer::lock([&part], [&x]).map(drop),
            SharedBuffer::lock([], [&y, &x, &y]).map(drop),
        ] {
            let refused = refused.unwrap_err();
            assert!(
                matches!(refused, CudaError::WouldDeadlock { .. }),
                "{refused:?}"
            );
        }
        drop(kept);
        assert!(y.try_write().is_ok() && x.try_write().is_ok());
    });
}
