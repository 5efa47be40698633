//! Guards of tasks, and threads beside them.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use um_backend::{BufferKind, CudaError, DType, Result, SharedBuffer, SharedRead, shared::OfTask};

use crate::support::on_each;

/// Four bytes of zeros, on each machine.
fn on_each_storage(test: impl Fn(SharedBuffer)) {
    on_each(|machine| {
        let kind = BufferKind::Unified;
        let buffer = machine.backend().create_erased(kind, DType::U8, 4);
        test(SharedBuffer::new(buffer.unwrap()));
    });
}

/// A task that counts how often it is woken.
#[derive(Default)]
struct Task(AtomicUsize);

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Task {
    fn poll<F: Future + ?Sized>(self: &Arc<Self>, future: Pin<&mut F>) -> Poll<F::Output> {
        let waker = Waker::from(Arc::clone(self));
        future.poll(&mut Context::from_waker(&waker))
    }

    fn woken(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

fn ready<T>(poll: Poll<Result<T>>) -> T {
    match poll {
        Poll::Ready(result) => result.unwrap(),
        Poll::Pending => panic!("pending"),
    }
}

fn refused<T>(result: Result<T>) -> String {
    match result.map(drop) {
        Err(CudaError::WouldDeadlock { held, .. }) => held,
        other => panic!("{other:?}"),
    }
}

fn is_send<T: Send>(value: T) -> T {
    value
}

#[test]
fn a_guard_of_a_task_lives_across_an_await_and_moves_to_other_threads() {
    on_each_storage(|all| {
        let again = all.clone();
        let task = is_send(async move {
            let guard: SharedRead<OfTask> = is_send(all.read_async().await?);
            std::future::ready(()).await;
            let first = thread::spawn(move || guard.bytes().read_one(0));
            assert_eq!(first.join().unwrap()?, 0);
            all.write_async().await?.set_zero()
        });
        pollster::block_on(task).unwrap();
        again.write().unwrap();
    });
}

#[test]
fn tasks_and_threads_are_served_in_order() {
    on_each_storage(|all| {
        let (first, second) = (Arc::new(Task::default()), Arc::new(Task::default()));
        let read = all.read().unwrap();
        thread::scope(|scope| {
            let writer = scope.spawn(|| all.write().unwrap().copy_from_bytes(&[7; 4]).unwrap());
            let is_waited_for = || scope.spawn(|| all.try_read().is_err()).join().unwrap();
            while !is_waited_for() {
                thread::yield_now();
            }
            // This thread reads already, so it may read before the writer.
            let join = || {
                let mut writes = Box::pin(all.write_async());
                let mut reads = Box::pin(all.read_async());
                assert!(first.poll(writes.as_mut()).is_pending());
                assert!(second.poll(reads.as_mut()).is_pending());
                (writes, reads)
            };
            let (mut writes, mut reads) = scope.spawn(join).join().unwrap();
            drop(read);
            writer.join().unwrap();
            assert_eq!((first.woken(), second.woken()), (1, 0));
            let mut guard = ready(first.poll(writes.as_mut()));
            assert_eq!(
                guard.bytes().read_one(0).unwrap(),
                7,
                "the thread was first"
            );
            guard.copy_from_bytes(&[8; 4]).unwrap();
            drop(guard);
            assert_eq!((first.woken(), second.woken()), (1, 1));
            let guard = ready(second.poll(reads.as_mut()));
            assert_eq!(guard.bytes().read_one(0).unwrap(), 8);
        });
    });
}

#[test]
fn a_task_never_waits_for_its_own_guard() {
    on_each_storage(|all| {
        let (own, other) = (Arc::new(Task::default()), Arc::new(Task::default()));
        let guard = ready(own.poll(pin!(all.read_async())));
        let again = ready(own.poll(pin!(all.read_async())));
        let mut write = Box::pin(all.write_async());
        assert!(other.poll(write.as_mut()).is_pending());
        drop(ready(own.poll(pin!(all.read_async()))));
        let Poll::Ready(refusal) = own.poll(pin!(all.write_async())) else {
            panic!("it waits")
        };
        assert_eq!(refused(refusal), "2 read guards of this task");
        drop((guard, again));
        drop(ready(other.poll(write.as_mut())));

        let guard = all.read().unwrap();
        let Poll::Ready(refusal) = own.poll(pin!(all.write_async())) else {
            panic!("it waits")
        };
        assert_eq!(refused(refusal), "a read guard of this thread");
        drop(guard);
        drop(ready(own.poll(pin!(all.write_async()))));
    });
}

/// It could be its own: the guard may have been sent to the thread, or be that of a task that the thread runs.
#[test]
fn a_thread_does_not_wait_for_a_guard_that_may_be_its_own() {
    on_each_storage(|all| {
        let task = "a task, which this thread may have to run";
        let guard = pollster::block_on(all.write_async()).unwrap();
        let asks = |guard| {
            let asked = refused(all.read());
            drop(guard);
            asked
        };
        let asked = thread::scope(|scope| scope.spawn(|| asks(guard)).join().unwrap());
        assert_eq!(asked, format!("a write guard of {task}"));

        let part = all.read().unwrap().into_erased();
        let asked = thread::scope(|scope| {
            let asks = || {
                let part = part;
                let asked = refused(all.write());
                drop(part);
                asked
            };
            scope.spawn(asks).join().unwrap()
        });
        let moved = "that `into_erased` took from its thread, so that this thread may have it";
        assert_eq!(asked, format!("a read guard {moved}"));
        all.write().unwrap();
    });
}

/// A thread waits for a guard that leaves its thread, or for which a task is served: it gets the error then.
#[test]
fn a_thread_that_waits_gets_an_error_when_a_task_has_the_storage() {
    on_each_storage(|all| {
        for is_served in [false, true] {
            let task = Arc::new(Task::default());
            let guard = all.write().unwrap();
            let mut write = Box::pin(all.write_async());
            thread::scope(|scope| {
                if is_served {
                    scope
                        .spawn(|| assert!(task.poll(write.as_mut()).is_pending()))
                        .join()
                        .unwrap();
                }
                let waits = scope.spawn(|| refused(all.read()));
                let part = match is_served {
                    true => {
                        drop(guard);
                        None
                    }
                    false => Some(guard.into_erased()),
                };
                let whose = match is_served {
                    true => "of a task",
                    false => "that `into_erased` took from its thread",
                };
                let refusal = waits.join().unwrap();
                assert!(
                    refusal.starts_with(&format!("a write guard {whose}")),
                    "{refusal}"
                );
                drop(part);
            });
            drop(write);
            all.write().unwrap();
        }
    });
}

#[test]
fn a_future_that_is_dropped_leaves_the_line() {
    on_each_storage(|all| {
        let tasks = [(); 3].map(|()| Arc::new(Task::default()));
        let guard = ready(tasks[0].poll(pin!(all.read_async())));
        let mut write = Box::pin(all.write_async());
        let mut read = Box::pin(all.read_async());
        assert!(tasks[1].poll(write.as_mut()).is_pending());
        assert!(tasks[2].poll(read.as_mut()).is_pending());
        drop(write);
        assert_eq!(tasks[2].woken(), 1, "the writer is gone");
        drop(ready(tasks[2].poll(read.as_mut())));

        // Also if it is served already.
        let mut write = Box::pin(all.write_async());
        assert!(tasks[1].poll(write.as_mut()).is_pending());
        drop(guard);
        assert_eq!(tasks[1].woken(), 1);
        assert!(all.try_read().is_err(), "it is served");
        drop(write);
        all.write().unwrap();
    });
}

/// Its wake, and its drop, use the storage and panic.
struct Unruly(SharedBuffer, AtomicUsize);

impl Wake for Unruly {
    fn wake(self: Arc<Self>) {
        drop(self.0.try_read());
        self.1.fetch_add(1, Ordering::SeqCst);
        panic!("a waker panics");
    }
}

impl Drop for Unruly {
    fn drop(&mut self) {
        drop(self.0.try_read());
        panic!("the drop of a waker panics");
    }
}

#[test]
fn a_waker_is_called_without_the_lock_and_may_panic() {
    on_each_storage(|all| {
        let unruly = Arc::new(Unruly(all.clone(), AtomicUsize::new(0)));
        let waker = Waker::from(Arc::clone(&unruly));
        let other = Arc::new(Task::default());
        let guard = ready(other.poll(pin!(all.read_async())));
        let mut write = Box::pin(all.write_async());
        for _ in 0..2 {
            let poll = write.as_mut().poll(&mut Context::from_waker(&waker));
            assert!(poll.is_pending());
        }
        drop(waker);
        drop(guard);
        assert_eq!(unruly.1.load(Ordering::SeqCst), 1);
        let waker = Waker::from(unruly);
        let guard = ready(write.as_mut().poll(&mut Context::from_waker(&waker)));
        drop(waker);
        // It has the last handle.
        drop(guard);
        all.write().unwrap();
    });
}
