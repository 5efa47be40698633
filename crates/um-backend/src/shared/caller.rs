//! The callers that hold shared storage or wait for it.

use std::marker::PhantomData;
use std::sync::MutexGuard;
use std::thread::{self, ThreadId};

use cuda_um::Contained;

/// Marks a guard that stays on its thread: those of [`SharedBuffer::read`](crate::SharedBuffer::read) and
/// [`SharedBuffer::write`](crate::SharedBuffer::write). It is not `Send`.
#[derive(Debug)]
pub struct OfThread(
    /// `Sync`, and not `Send`.
    PhantomData<MutexGuard<'static, ()>>,
);

/// Marks a guard that may live across an `await` and move to another thread: those of
/// [`SharedBuffer::read_async`](crate::SharedBuffer::read_async) and [`SharedBuffer::write_async`](crate::SharedBuffer::write_async).
#[derive(Debug)]
pub struct OfTask(());

/// What is known of the place of a guard.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Holder {
    Thread(ThreadId),
    /// The addresses of the waker of the task that took it. The guard keeps the waker, so no other task has them meanwhile.
    Task {
        data: usize,
        vtable: usize,
    },
    /// A part that left its thread, and may be anywhere.
    Moved,
    /// A task whose waker has no data. It may be anywhere.
    Unknown,
}

impl Holder {
    fn count(self, holders: &[Self]) -> usize {
        holders.iter().filter(|holder| **holder == self).count()
    }
}

/// A call that asks for access.
#[derive(Clone, Copy)]
pub(super) struct Caller {
    /// The thread that calls, or polls.
    thread: ThreadId,
    /// The holder of the guard that it asks for.
    pub(super) holder: Holder,
}

impl Caller {
    pub(super) fn thread() -> Self {
        let thread = thread::current().id();
        Self {
            thread,
            holder: Holder::Thread(thread),
        }
    }

    pub(super) fn task(waker: &Contained) -> Self {
        let holder = match waker.waker() {
            Some(waker) if !waker.data().is_null() => Holder::Task {
                data: waker.data().addr(),
                vtable: std::ptr::from_ref(waker.vtable()).addr(),
            },
            _ => Holder::Unknown,
        };
        Self {
            thread: thread::current().id(),
            holder,
        }
    }

    /// Whether a wait blocks the thread.
    pub(super) fn blocks(self) -> bool {
        matches!(self.holder, Holder::Thread(_))
    }

    /// Whether it asks for a guard of the same thread or task as another request. Requests of unknown tasks are of different ones.
    pub(super) fn is_of(self, holder: Holder) -> bool {
        self.holder == holder && !matches!(holder, Holder::Moved | Holder::Unknown)
    }

    /// Whether a guard is of its thread or task.
    pub(super) fn has(self, holder: Holder) -> bool {
        self.is_of(holder) || holder == Holder::Thread(self.thread)
    }

    /// The guards that may be its own, so that it must not wait for them: those of its thread and of its task, and, for a call that blocks
    /// its thread, those that may be anywhere, because the thread may run their task.
    pub(super) fn may_have(self, holders: &[Holder]) -> Option<String> {
        let total = holders.len();
        let own = [
            (Holder::Thread(self.thread).count(holders), "of this thread"),
            (self.holder.count(holders), "of this task"),
        ];
        let is_sent = |holder: &&Holder| !matches!(holder, Holder::Thread(_));
        let sent = holders.iter().filter(is_sent).count();
        let moved = Holder::Moved.count(holders);
        let (count, whose) = match own {
            [thread, _] if thread.0 > 0 => thread,
            [_, task] if task.0 > 0 && self.holder != Holder::Unknown => task,
            _ if moved > 0 && self.blocks() => (
                moved,
                "that `into_erased` took from its thread, so that this thread may have it",
            ),
            _ if sent > 0 && self.blocks() => {
                (sent, "of a task, which this thread may have to run")
            }
            _ => return None,
        };
        Some(match count == total {
            true => whose.to_owned(),
            false => format!("({count} {whose})"),
        })
    }
}
