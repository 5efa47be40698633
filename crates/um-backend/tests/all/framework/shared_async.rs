//! Tasks that wait for shared storage, and threads beside them.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use um_backend::{BufferKind, DType, Result, SharedBuffer};

use crate::support::on_each;

/// Four bytes of zeros, on each machine.
fn on_each_storage(test: impl Fn(SharedBuffer)) {
    on_each(|machine| {
        let kind = BufferKind::Unified;
        let buffer = machine.backend().create_erased(kind, DType::U8, 4);
        test(SharedBuffer::new(buffer.unwrap()));
    });
}

/// A task that counts how often it is woken. If it is unruly, its wake uses the storage, and panics.
struct Task {
    woken: AtomicUsize,
    unruly: Option<SharedBuffer>,
}

impl Task {
    fn new(unruly: Option<SharedBuffer>) -> Arc<Self> {
        Arc::new(Self {
            woken: AtomicUsize::new(0),
            unruly,
        })
    }

    fn poll<F: Future + ?Sized>(self: &Arc<Self>, future: Pin<&mut F>) -> Poll<F::Output> {
        let waker = Waker::from(Arc::clone(self));
        future.poll(&mut Context::from_waker(&waker))
    }

    fn woken(&self) -> usize {
        self.woken.load(Ordering::SeqCst)
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.woken.fetch_add(1, Ordering::SeqCst);
        if let Some(storage) = &self.unruly {
            drop(storage.try_read());
            panic!("a waker panics");
        }
    }
}

fn ready<T>(poll: Poll<Result<T>>) -> T {
    match poll {
        Poll::Ready(result) => result.unwrap(),
        Poll::Pending => panic!("pending"),
    }
}

fn is_send<T: Send>(value: T) -> T {
    value
}

#[test]
fn a_part_of_a_task_lives_across_an_await_and_moves_to_other_threads() {
    on_each_storage(|all| {
        let again = all.clone();
        let task = is_send(async move {
            let mut part = is_send(all.read_async().await?);
            std::future::ready(()).await;
            assert!(part.bytes_mut().set_zero().is_err(), "it only reads");
            let first = thread::spawn(move || part.bytes().read_one(0));
            assert_eq!(first.join().unwrap()?, 0);
            all.write_async().await?.bytes_mut().fill(3)
        });
        pollster::block_on(task).unwrap();
        assert_eq!(again.write().unwrap().bytes().read_one(0).unwrap(), 3);
    });
}

/// Each release wakes the tasks that wait. A task that waits to write holds up neither a thread nor a task that reads, and needs no poll to go away.
#[test]
fn tasks_wait_for_guards_and_hold_up_nothing() {
    on_each_storage(|all| {
        let (writer, reader) = (Task::new(None), Task::new(None));
        let guard = all.read().unwrap();
        let mut write = Box::pin(all.write_async());
        for _ in 0..2 {
            assert!(writer.poll(write.as_mut()).is_pending());
        }
        let part = ready(reader.poll(pin!(all.read_async())));
        let again = ready(reader.poll(pin!(all.read_async())));
        let look = || drop(all.read().unwrap());
        thread::scope(|scope| scope.spawn(look).join().unwrap());
        assert_eq!(writer.woken(), 1, "by the other thread's guard");
        assert!(writer.poll(write.as_mut()).is_pending());
        drop((guard, part));
        assert_eq!(writer.woken(), 2);
        assert!(writer.poll(write.as_mut()).is_pending());
        drop(again);
        assert_eq!((writer.woken(), reader.woken()), (3, 0));
        let written = ready(writer.poll(write.as_mut()));
        let mut read = Box::pin(all.read_async());
        assert!(reader.poll(read.as_mut()).is_pending());
        drop(read);
        drop(written);
        all.write().unwrap();
    });
}

#[test]
fn a_waker_is_called_without_the_lock_and_may_panic() {
    on_each_storage(|all| {
        let unruly = Task::new(Some(all.clone()));
        let part = pollster::block_on(all.read_async()).unwrap();
        let mut write = Box::pin(all.write_async());
        for _ in 0..2 {
            assert!(unruly.poll(write.as_mut()).is_pending());
        }
        drop(part);
        assert_eq!(unruly.woken(), 1);
        let part = ready(unruly.poll(write.as_mut()));
        drop((part, write));
        all.write().unwrap();
    });
}
