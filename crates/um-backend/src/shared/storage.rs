//! The lock of shared storage: any number of readers, or one writer.
//!
//! - A thread that waits to write holds back threads that do not read yet.
//! - No thread waits for a guard that it took itself.
//! - A release wakes the tasks that wait, and they try again. No thread waits until a task is polled.
//! - Foreign code (the wakers of tasks) is called without the lock.

use std::ops::Deref;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::thread::{self, ThreadId};
use std::time::Duration;

use cuda_um::fork::Origin;
use cuda_um::{Contained, Device, process_end};
use cuda_um_sys::locks::{Condvar, Mutex};

use crate::buffer::Buffer;
use crate::error::{CudaError, Result};

pub(super) type Bytes = Arc<dyn Buffer<u8>>;

/// A thread that waits looks at least so often if the process ends: the thread that has a guard may have stopped for good.
const LOOKS_AGAIN: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

pub(super) struct Storage {
    /// Locked only after a check of `origin`.
    state: Mutex<State>,
    changed: Condvar,
    pub(super) device: Option<Device>,
    pub(super) size_bytes: usize,
    origin: Origin,
    /// Has a share in each handle and guard that counts.
    counted: Weak<()>,
}

/// A handle of storage. Those of captured steps, and the guards of their launches, do not count.
#[derive(Clone)]
pub(super) struct Handle {
    storage: Arc<Storage>,
    _counts: Option<Arc<()>>,
}

struct State {
    /// `None` while a writer has it.
    bytes: Option<Bytes>,
    holders: Vec<ThreadId>,
    /// How many threads wait to write.
    writers: usize,
    wakers: Vec<Contained>,
}

impl Storage {
    /// The number of handles and guards, besides those of captured steps; `None` in a child made by `fork`.
    pub(super) fn handles(&self) -> Option<usize> {
        (!self.origin.is_inherited()).then(|| self.counted.strong_count())
    }

    pub(super) fn take(&self, access: Access, call: &'static str, waits: bool) -> Result<Bytes> {
        self.origin.check_fork(call)?;
        let thread = thread::current().id();
        let mut state = self.state.lock();
        if !state.admits(access, thread) {
            state.refuse(thread, call, waits)?;
            let writer = usize::from(access == Access::Write);
            state.writers += writer;
            while !state.admits(access, thread) && !process_end::is_ending() {
                self.changed.wait_for(&mut state, LOOKS_AGAIN);
            }
            state.writers -= writer;
            if !state.admits(access, thread) {
                self.changed.notify_all();
                return Err(process_end::error(call));
            }
        }
        Ok(state.begin(access, thread))
    }

    /// Takes access in a task, or has it woken at the next release.
    pub(super) fn poll(
        &self,
        access: Access,
        call: &'static str,
        context: &Context<'_>,
    ) -> Poll<Result<Bytes>> {
        self.origin.check_fork(call)?;
        if process_end::is_ending() {
            return Poll::Ready(Err(process_end::error(call)));
        }
        let waker = Contained::of(context);
        let mut state = self.state.lock();
        if state.bytes.is_some() && (access == Access::Read || state.holders.is_empty()) {
            return Poll::Ready(Ok(state.begin(access, thread::current().id())));
        }
        let is_known = |known: &Contained| {
            let known = known.waker();
            known.is_some_and(|known| known.will_wake(context.waker()))
        };
        if !state.wakers.iter().any(is_known) {
            state.wakers.push(waker);
        }
        Poll::Pending
    }

    pub(super) fn end(&self, access: Access, thread: ThreadId, bytes: &mut Option<Bytes>) {
        if self.origin.is_inherited() {
            return;
        }
        let mut state = self.state.lock();
        match access {
            // A writer needs the only share.
            Access::Read => *bytes = None,
            Access::Write => state.bytes = bytes.take(),
        }
        let holder = state.holders.iter().position(|holder| *holder == thread);
        holder.map(|holder| state.holders.swap_remove(holder));
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        self.changed.notify_all();
        wakers.into_iter().for_each(Contained::wake);
    }
}

impl Handle {
    pub(super) fn new(bytes: Box<dyn Buffer<u8>>) -> Self {
        let counts = Arc::new(());
        let storage = Storage {
            device: crate::memory::device_of(&*bytes).cloned(),
            size_bytes: bytes.len(),
            origin: Origin::here(),
            changed: Condvar::new(),
            counted: Arc::downgrade(&counts),
            state: Mutex::new(State {
                bytes: Some(Arc::from(bytes)),
                holders: Vec::new(),
                writers: 0,
                wakers: Vec::new(),
            }),
        };
        Self {
            storage: Arc::new(storage),
            _counts: Some(counts),
        }
    }

    pub(super) fn uncounted(&self) -> Self {
        Self {
            storage: Arc::clone(&self.storage),
            _counts: None,
        }
    }

    /// Distinguishes the storage from other storage that lives.
    pub(super) fn address(&self) -> usize {
        Arc::as_ptr(&self.storage).addr()
    }
}

impl Deref for Handle {
    type Target = Storage;

    fn deref(&self) -> &Storage {
        &self.storage
    }
}

impl State {
    fn admits(&self, access: Access, thread: ThreadId) -> bool {
        self.bytes.is_some()
            && match access {
                Access::Write => self.holders.is_empty(),
                // A thread that reads already must not wait for a writer, which waits for that thread.
                Access::Read => self.writers == 0 || self.holders.contains(&thread),
            }
    }

    fn refuse(&self, thread: ThreadId, call: &'static str, waits: bool) -> Result<()> {
        let count = self.holders.len();
        let held = match count {
            0 => "a thread that waits for it".to_owned(),
            1 if self.bytes.is_none() => "a write guard".to_owned(),
            1 => "a read guard".to_owned(),
            _ => format!("{count} read guards"),
        };
        if !waits {
            return Err(CudaError::Busy {
                what: format!("{call}: the storage"),
                by: format!(
                    "it is in use by {held}: drop the guards first, or wait with the call without `try_`"
                ),
            });
        }
        let own = self.holders.iter().filter(|holder| **holder == thread);
        let held = match own.count() {
            0 => return Ok(()),
            own if own == count => format!("{held} of this thread"),
            own => format!("{held} ({own} of this thread)"),
        };
        Err(CudaError::WouldDeadlock { call, held })
    }

    fn begin(&mut self, access: Access, thread: ThreadId) -> Bytes {
        self.holders.push(thread);
        let bytes = match access {
            Access::Read => self.bytes.clone(),
            Access::Write => self.bytes.take(),
        };
        bytes.expect("no writer has them")
    }
}
