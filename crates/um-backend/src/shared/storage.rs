//! The lock of shared storage. It knows the threads and tasks that hold it, so none of them waits for its own guard.
//!
//! - Requests that wait are served in the order in which they came. The release serves them: it makes the next one the holder, which threads
//!   and tasks only find out. So a task that is not polled for a while loses no turn, and a thread never waits until a task is polled.
//! - A thread or task that reads may read again, also before a writer that waits for it, and does not wait behind its own requests.
//! - A thread that reads does not wait behind a task that waits to write.
//! - Foreign code (the wakers of tasks) is called without the lock.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use cuda_um::fork::Origin;
use cuda_um::process_end;
use cuda_um::{Contained, Device};
use cuda_um_sys::locks::{Condvar, Mutex};

use super::caller::{Caller, Holder};
use crate::buffer::Buffer;
use crate::error::{CudaError, Result};

type Bytes = Arc<dyn Buffer<u8>>;

/// A thread that waits looks at least so often if the process ends.
const LOOKS_AGAIN: Duration = Duration::from_millis(100);

pub(super) struct Storage {
    /// Locked only after a check of `origin`.
    state: Mutex<State>,
    /// The threads that wait look at their requests again.
    changed: Condvar,
    device: Option<Device>,
    size_bytes: usize,
    origin: Origin,
    /// The handles and guards that count.
    handles: AtomicUsize,
}

/// A handle of storage. A clone counts as this one does: those of captured steps, and the guards of their launches, do not.
pub(super) struct Handle {
    storage: Arc<Storage>,
    counts: bool,
}

struct State {
    /// `None` while a writer has it.
    bytes: Option<Bytes>,
    holders: Vec<Holder>,
    /// Whether the holder is a writer.
    is_written: bool,
    line: VecDeque<Request>,
    /// The number of the last request.
    last: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

/// A request that waits, or that is served and does not know it yet.
struct Request {
    number: u64,
    access: Access,
    caller: Caller,
    is_served: bool,
    /// Of a task that waits.
    waker: Option<Contained>,
}

/// Access to the bytes: a share of them to read, and the only share to write.
pub(super) struct Held {
    storage: Handle,
    access: Access,
    holder: Holder,
    bytes: Option<Bytes>,
    /// Keeps the addresses of the holder. Dropped after the access has ended.
    waker: Option<Contained>,
}

/// The place of a future in the line.
struct Place<'a> {
    storage: &'a Handle,
    access: Access,
    call: &'static str,
    number: Option<u64>,
}

impl Storage {
    fn new(bytes: Box<dyn Buffer<u8>>) -> Self {
        Self {
            device: crate::memory::device_of(&*bytes).cloned(),
            size_bytes: bytes.len(),
            origin: Origin::here(),
            changed: Condvar::new(),
            handles: AtomicUsize::new(0),
            state: Mutex::new(State {
                bytes: Some(Arc::from(bytes)),
                holders: Vec::new(),
                is_written: false,
                line: VecDeque::new(),
                last: 0,
            }),
        }
    }

    pub(super) fn device(&self) -> Option<&Device> {
        self.device.as_ref()
    }

    pub(super) fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    /// Whether there is one handle, besides those of captured steps.
    pub(super) fn has_one_handle(&self) -> bool {
        self.handles() == Some(1)
    }

    /// The number of handles and guards, besides those of captured steps; `None` in a child made by `fork`.
    pub(super) fn handles(&self) -> Option<usize> {
        // Acquire: what the last other handle did is before what follows.
        (!self.origin.is_inherited()).then(|| self.handles.load(Ordering::Acquire))
    }

    /// Tells threads and tasks that the holders have changed. Without the lock.
    fn tell(&self, served: Vec<Contained>) {
        self.changed.notify_all();
        served.into_iter().for_each(Contained::wake);
    }
}

impl Handle {
    /// The first handle of new storage.
    pub(super) fn new(bytes: Box<dyn Buffer<u8>>) -> Self {
        let storage = Arc::new(Storage::new(bytes));
        Self::of(storage, true)
    }

    fn of(storage: Arc<Storage>, counts: bool) -> Self {
        // Relaxed: as for the count of an `Arc`.
        storage
            .handles
            .fetch_add(usize::from(counts), Ordering::Relaxed);
        Self { storage, counts }
    }

    /// A handle that does not count.
    pub(super) fn uncounted(&self) -> Self {
        Self::of(Arc::clone(&self.storage), false)
    }

    /// Distinguishes the storage from other storage that lives.
    pub(super) fn address(&self) -> usize {
        Arc::as_ptr(&self.storage).addr()
    }

    /// Takes access in this thread.
    pub(super) fn take(&self, access: Access, call: &'static str, waits: bool) -> Result<Held> {
        self.origin.check_fork(call)?;
        let caller = Caller::thread();
        let mut state = self.state.lock();
        if state.admits(access, caller, state.line.len()) {
            state.begin(access, caller.holder);
            return Ok(self.held(&mut state, access, caller, None));
        }
        state.refuse(call, waits, caller)?;
        let number = state.join(access, caller, None);
        loop {
            self.changed.wait_for(&mut state, LOOKS_AGAIN);
            let refusal = match state.is_served(number) {
                true => Ok(()),
                false => check_end(call).and_then(|()| state.refuse(call, waits, caller)),
            };
            if let Err(refusal) = refusal {
                state.leave(number);
                let served = state.serve();
                drop(state);
                self.tell(served);
                return Err(refusal);
            }
            if state.is_served(number) {
                state.leave(number);
                return Ok(self.held(&mut state, access, caller, None));
            }
        }
    }

    /// Takes access in the task that awaits this. A future that is dropped leaves the line.
    pub(super) async fn take_async(&self, access: Access, call: &'static str) -> Result<Held> {
        let mut place = Place {
            storage: self,
            access,
            call,
            number: None,
        };
        poll_fn(|context| place.poll(context)).await
    }

    /// The access that has begun.
    fn held(
        &self,
        state: &mut State,
        access: Access,
        caller: Caller,
        waker: Option<Contained>,
    ) -> Held {
        Held {
            storage: self.clone(),
            access,
            holder: caller.holder,
            bytes: match access {
                Access::Read => state.bytes.clone(),
                Access::Write => state.bytes.take(),
            },
            waker,
        }
    }
}

impl Clone for Handle {
    fn clone(&self) -> Self {
        Self::of(Arc::clone(&self.storage), self.counts)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.storage
            .handles
            .fetch_sub(usize::from(self.counts), Ordering::Release);
    }
}

impl Deref for Handle {
    type Target = Storage;

    fn deref(&self) -> &Storage {
        &self.storage
    }
}

/// An error if the process ends: a thread that has a guard may have stopped for good.
fn check_end(call: &'static str) -> Result<()> {
    match process_end::is_ending() {
        true => Err(process_end::error(call)),
        false => Ok(()),
    }
}

impl State {
    /// Whether a request may begin, behind the first `ahead` of the line.
    fn admits(&self, access: Access, caller: Caller, ahead: usize) -> bool {
        let holds_off = |request: &Request| {
            let is_overtaken = caller.blocks() && !request.caller.blocks();
            let waits = !request.is_served && request.access == Access::Write;
            waits && !is_overtaken && !caller.is_of(request.caller.holder)
        };
        match access {
            _ if self.is_written => false,
            // Without a holder, none waits in the line.
            Access::Write => self.holders.is_empty(),
            // A caller that reads already must not wait for a writer, which waits for that caller.
            Access::Read => {
                self.holders.iter().any(|holder| caller.has(*holder))
                    || !self.line.iter().take(ahead).any(holds_off)
            }
        }
    }

    /// The error of a call that must not wait.
    fn refuse(&self, call: &'static str, waits: bool, caller: Caller) -> Result<()> {
        let held = match self.holders.len() {
            1 if self.is_written => "a write guard".to_owned(),
            1 => "a read guard".to_owned(),
            count => format!("{count} read guards"),
        };
        if !waits {
            return Err(CudaError::Busy {
                what: format!("{call}: the storage"),
                by: format!(
                    "it is in use by {held}: drop the guards first, or wait with the call without `try_`"
                ),
            });
        }
        match caller.may_have(&self.holders) {
            Some(whose) => Err(CudaError::WouldDeadlock {
                call,
                held: format!("{held} {whose}"),
            }),
            None => Ok(()),
        }
    }

    fn begin(&mut self, access: Access, holder: Holder) {
        self.holders.push(holder);
        self.is_written = access == Access::Write;
    }

    fn end(&mut self, holder: Holder) {
        if let Some(index) = self.holders.iter().position(|other| *other == holder) {
            self.holders.swap_remove(index);
        }
        self.is_written = false;
    }

    fn join(&mut self, access: Access, caller: Caller, waker: Option<Contained>) -> u64 {
        self.last += 1;
        self.line.push_back(Request {
            number: self.last,
            access,
            caller,
            is_served: false,
            waker,
        });
        self.last
    }

    fn place_of(&self, number: u64) -> Option<usize> {
        let mut line = self.line.iter();
        line.position(|request| request.number == number)
    }

    fn is_served(&self, number: u64) -> bool {
        self.line.iter().any(|r| r.number == number && r.is_served)
    }

    fn leave(&mut self, number: u64) -> Option<Request> {
        self.line.remove(self.place_of(number)?)
    }

    /// Begins the access of requests that can begin now. Returns the wakers of their tasks.
    fn serve(&mut self) -> Vec<Contained> {
        let mut served = Vec::new();
        for ahead in 0..self.line.len() {
            let request = &self.line[ahead];
            let (access, caller) = (request.access, request.caller);
            if !request.is_served && self.admits(access, caller, ahead) {
                self.begin(access, caller.holder);
                self.line[ahead].is_served = true;
                served.extend(self.line[ahead].waker.take());
            }
        }
        served
    }
}

impl Place<'_> {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Held>> {
        let storage = self.storage;
        storage.origin.check_fork(self.call)?;
        let waker = Contained::of(context);
        let caller = Caller::task(&waker);
        let mut state = storage.state.lock();
        let place = self.number.and_then(|number| state.place_of(number));
        let is_served = place.is_some_and(|place| state.line[place].is_served);
        let ahead = place.unwrap_or(state.line.len());
        if is_served || state.admits(self.access, caller, ahead) {
            let left = self.number.take().and_then(|number| state.leave(number));
            if let (true, Some(left)) = (is_served, &left) {
                state.end(left.caller.holder);
            }
            state.begin(self.access, caller.holder);
            let held = storage.held(&mut state, self.access, caller, Some(waker));
            drop(state);
            drop(left);
            // A thread does not wait for a task.
            storage.tell(Vec::new());
            return Poll::Ready(Ok(held));
        }
        let refused = check_end(self.call).and_then(|()| state.refuse(self.call, true, caller));
        if let Err(refusal) = refused {
            drop(state);
            self.leave();
            return Poll::Ready(Err(refusal));
        }
        let before = match place {
            Some(place) => {
                let request = &mut state.line[place];
                request.caller = caller;
                request.waker.replace(waker)
            }
            None => {
                self.number = Some(state.join(self.access, caller, Some(waker)));
                None
            }
        };
        drop(state);
        drop(before);
        Poll::Pending
    }

    fn leave(&mut self) {
        let Some(number) = self.number.take() else {
            return;
        };
        let mut state = self.storage.state.lock();
        let left = state.leave(number);
        if let Some(left) = left.as_ref().filter(|left| left.is_served) {
            state.end(left.caller.holder);
        }
        let served = state.serve();
        drop(state);
        drop(left);
        self.storage.tell(served);
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if !self.storage.origin.is_inherited() {
            self.leave();
        }
    }
}

impl Held {
    pub(super) fn bytes(&self) -> Option<&dyn Buffer<u8>> {
        self.bytes.as_deref()
    }

    /// `None` for a reader, whose bytes nothing borrows exclusively.
    pub(super) fn bytes_mut(&mut self) -> Option<&mut (dyn Buffer<u8> + 'static)> {
        match self.access {
            Access::Read => None,
            Access::Write => Arc::get_mut(self.bytes.as_mut()?),
        }
    }

    /// Lets the access leave its thread. From now on, threads do not wait for it.
    pub(super) fn leaves_its_thread(&mut self) {
        if matches!(self.holder, Holder::Thread(_)) && !self.storage.origin.is_inherited() {
            let mut state = self.storage.state.lock();
            state.end(self.holder);
            self.holder = Holder::Moved;
            state.begin(self.access, self.holder);
            drop(state);
            self.storage.tell(Vec::new());
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.storage.origin.is_inherited() {
            // Foreign code, of an executor of the parent.
            return std::mem::forget(self.waker.take());
        }
        let mut state = self.storage.state.lock();
        match self.access {
            // A writer needs the only share.
            Access::Read => self.bytes = None,
            Access::Write => state.bytes = self.bytes.take(),
        }
        state.end(self.holder);
        let served = state.serve();
        drop(state);
        self.storage.tell(served);
    }
}

impl fmt::Debug for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Storage")
            .field("size_bytes", &self.size_bytes)
            .finish_non_exhaustive()
    }
}
