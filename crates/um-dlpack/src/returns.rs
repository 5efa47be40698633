//! The end of memory that other libraries used. The last handle may be dropped by a deleter, which runs on any thread: under Python's lock, in a
//! finalizer, in a callback of CUDA, which must not call CUDA, or in a child made by `fork`, where locks of the parent may be held for ever.
//! So the drop only sends the memory to a thread, which waits for the device.
//!
//! The thread also polls tensors of other libraries that were dropped in use.

use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, ThreadId};
use std::time::Duration;

use um_backend::cuda_um::fork::PerProcess;
use um_backend::cuda_um::on_deferred_imports;
use um_backend::cuda_um::process_end::{self, Calls};
use um_backend::cuda_um::sys::cudaError;
use um_backend::{CudaError, SharedBuffer};

use crate::error::Result;

enum Message {
    Drop(SharedBuffer),
    /// Tensors of other libraries that were dropped in use.
    Poll(Box<dyn Fn() -> bool + Send>),
    Settle(Sender<um_backend::Result<()>>),
}

struct Thread {
    sender: Sender<Message>,
    id: ThreadId,
}

static THREAD: PerProcess<OnceLock<Thread>> = PerProcess::new(OnceLock::new);

/// The thread; none in a child made by `fork`, until the child exports memory of its own.
fn own() -> Option<&'static Thread> {
    THREAD.get_if_made()?.get()
}

/// How often the thread polls tensors that were dropped in use: their libraries get them back though the program calls nothing of this one.
const POLLS: Duration = Duration::from_millis(2);

/// Starts the thread unless it runs. An export and an import call this, because a deleter must not.
pub(crate) fn start() -> Result<()> {
    on_deferred_imports(|imports| {
        if let Some(thread) = own() {
            let _ = thread.sender.send(Message::Poll(imports));
        }
    });
    let thread_of_process = THREAD.get();
    if thread_of_process.get().is_none() {
        let (sender, receiver) = channel();
        let thread = thread::Builder::new()
            .name("um-dlpack".to_owned())
            .spawn(move || run(&receiver))?;
        // If another call was first, this sender is dropped, and so its thread ends.
        let _ = thread_of_process.set(Thread {
            sender,
            id: thread.thread().id(),
        });
    }
    Ok(())
}

thread_local! {
    /// Memory that this crate's thread gave back while it freed other memory, as in a chain of imports; `None` on other threads.
    static BEHIND: RefCell<Option<Vec<SharedBuffer>>> = const { RefCell::new(None) };
}

fn run(receiver: &Receiver<Message>) {
    BEHIND.set(Some(Vec::new()));
    let mut result = Ok(());
    let mut imports: Vec<Box<dyn Fn() -> bool + Send>> = Vec::new();
    loop {
        let message = match imports.is_empty() {
            true => receiver.recv().map_err(RecvTimeoutError::from),
            false => receiver.recv_timeout(POLLS),
        };
        match message {
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                imports.retain(|poll| Calls::begin().is_some_and(|_calls| poll()));
            }
            Ok(Message::Poll(these)) => imports.push(these),
            Ok(Message::Drop(storage)) => {
                let mut next = Some(storage);
                while let Some(storage) = next {
                    result = result.and(free(storage));
                    next = BEHIND.with_borrow_mut(|behind| behind.as_mut().and_then(Vec::pop));
                }
            }
            // The asking thread may have ended.
            Ok(Message::Settle(done)) => drop(done.send(std::mem::replace(&mut result, Ok(())))),
        }
    }
}

fn free(storage: SharedBuffer) -> um_backend::Result<()> {
    match Calls::begin() {
        Some(_calls) => caught(|| end(storage)).unwrap_or_else(|| Err(failed("a panic"))),
        // The process ends, and the driver frees all memory.
        None => {
            std::mem::forget(storage);
            Ok(())
        }
    }
}

/// Frees the memory after the work on it. If the wait fails, or panics, work may still use the memory, which is leaked.
fn end(storage: SharedBuffer) -> um_backend::Result<()> {
    let storage = ManuallyDrop::new(storage);
    if let Some(device) = storage.device() {
        device.synchronize()?;
    }
    drop(ManuallyDrop::into_inner(storage));
    Ok(())
}

thread_local! {
    /// What a call of `free_now` on this thread still frees; `None` outside of one.
    static QUEUE: RefCell<Option<Vec<SharedBuffer>>> = const { RefCell::new(None) };
}

/// Frees memory without a wait, and without a panic: memory of the host, which no work of a device uses.
///
/// The owner of imported memory may drop the last handle of other memory. The outer call then frees that, so that a long chain needs no deep stack.
pub(crate) fn free_now(storage: SharedBuffer) {
    let mut next = Some(storage);
    // A thread that ends has no queue, and frees the memory at once.
    let is_outer = QUEUE.try_with(|queue| match &mut *queue.borrow_mut() {
        Some(queue) => {
            queue.extend(next.take());
            false
        }
        closed => {
            *closed = Some(Vec::new());
            true
        }
    });
    while let Some(storage) = next {
        caught(|| drop(storage));
        let popped = QUEUE.try_with(|queue| queue.borrow_mut().as_mut().and_then(Vec::pop));
        next = popped.ok().flatten();
    }
    if is_outer == Ok(true) {
        let _ = QUEUE.try_with(RefCell::take);
    }
}

/// Frees the memory on the thread. In a child made by `fork` it is leaked: it belongs to the parent.
///
/// The thread itself frees it before its next message, so that a call of `settle` waits for whole chains.
pub(crate) fn give_back(storage: SharedBuffer) {
    let mut storage = Some(storage);
    let _ = BEHIND.try_with(|behind| {
        if let Some(behind) = &mut *behind.borrow_mut() {
            behind.extend(storage.take());
        }
    });
    let Some(storage) = storage else { return };
    match own() {
        Some(thread) => {
            // Work may use memory that the thread does not take.
            if let Err(unsent) = thread.sender.send(Message::Drop(storage)) {
                std::mem::forget(unsent);
            }
        }
        None => std::mem::forget(storage),
    }
}

/// Runs foreign code: the owner of imported memory, or the buffer of a framework. `None` after a panic.
fn caught<R>(body: impl FnOnce() -> R) -> Option<R> {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(result) => Some(result),
        Err(panic) => {
            // The drop of the payload is foreign code as well, which may panic.
            std::mem::forget(panic);
            None
        }
    }
}

fn failed(message: &str) -> CudaError {
    um_backend::cuda_um::Error::Call {
        call: "um-dlpack",
        subject: "freeing memory that another library used".to_owned(),
        code: cudaError::cudaErrorUnknown.0,
        name: "cudaErrorUnknown".to_owned(),
        message: message.to_owned(),
    }
}

/// Waits until the memory whose last handle was dropped before is free, or waits for work of this library.
///
/// In Python, the caller must not hold the interpreter's lock: a foreign owner may need it. On the thread of this crate, and in a child made by
/// `fork`, it returns at once.
///
/// # Errors
/// The first error of a wait for the device since the last call: the memory is then leaked. Also if the drop of such memory panicked.
pub fn settle() -> um_backend::Result<()> {
    let Some(thread) = own().filter(|thread| thread.id != thread::current().id()) else {
        return Ok(());
    };
    // The thread stops, and the memory is not freed.
    if process_end::is_ending() {
        return Ok(());
    }
    if um_backend::cuda_um::graph::is_capturing() {
        return Err(CudaError::Capture {
            call: "um_dlpack::settle".to_owned(),
            reason: "it waits for the device, which waits for the end of the capture: call it before the capture, or after it".to_owned(),
        });
    }
    let (done, settled) = channel();
    // Without the thread, memory may still be in use.
    let sent = thread.sender.send(Message::Settle(done));
    match sent.map(|()| settled.recv()) {
        Ok(Ok(result)) => result,
        _ => Err(failed("the thread has ended")),
    }
}
