//! The end of memory that other libraries used. The last handle may be dropped by a deleter, which runs on any thread: under Python's lock, in a
//! finalizer, in a callback of CUDA, which must not call CUDA, or in a child made by `fork`, where locks of the parent may be held for ever.
//! So the drop only sends the memory to a thread, which waits for the device.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, ThreadId};

use um_backend::SharedBuffer;
use um_backend::cuda_um::process_end::Calls;

use crate::error::Result;

enum Message {
    Drop(SharedBuffer),
    Settle(Sender<um_backend::Result<()>>),
}

/// The thread, and the process that has it.
struct Thread {
    sender: Sender<Message>,
    id: ThreadId,
    process: u32,
}

static THREAD: OnceLock<Thread> = OnceLock::new();

/// The thread; none in a child made by `fork`.
fn own() -> Option<&'static Thread> {
    THREAD
        .get()
        .filter(|thread| thread.process == std::process::id())
}

/// Starts the thread unless it runs. An export calls this, because a deleter must not.
pub(crate) fn start() -> Result<()> {
    if THREAD.get().is_none() {
        let (sender, receiver) = channel();
        let thread = thread::Builder::new()
            .name("um-dlpack".to_owned())
            .spawn(move || run(&receiver))?;
        // If another call was first, this sender is dropped, and so its thread ends.
        let _ = THREAD.set(Thread {
            sender,
            id: thread.thread().id(),
            process: std::process::id(),
        });
    }
    Ok(())
}

fn run(receiver: &Receiver<Message>) {
    let mut result = Ok(());
    for message in receiver {
        match message {
            Message::Drop(storage) => match Calls::begin() {
                Some(_calls) => {
                    // The owner of imported memory is foreign code.
                    let freed = catch_unwind(AssertUnwindSafe(|| end(storage))).unwrap_or(Ok(()));
                    result = result.and(freed);
                }
                // The process ends, and the driver frees all memory.
                None => std::mem::forget(storage),
            },
            // The asking thread may have ended.
            Message::Settle(done) => drop(done.send(std::mem::replace(&mut result, Ok(())))),
        }
    }
}

/// Frees the memory after the work on it. If the wait fails, work may still use the memory, which is leaked.
fn end(storage: SharedBuffer) -> um_backend::Result<()> {
    let device = storage.device().cuda();
    let waited = device.map_or(Ok(()), |device| device.synchronize());
    if waited.is_err() {
        std::mem::forget(storage);
    }
    waited
}

/// Frees the memory on the thread. In a child made by `fork` it is leaked: it belongs to the parent.
pub(crate) fn give_back(storage: SharedBuffer) {
    match own() {
        Some(thread) => drop(thread.sender.send(Message::Drop(storage))),
        None => std::mem::forget(storage),
    }
}

/// Waits until the memory whose last handle was dropped before is free, or waits for work of this library.
///
/// In Python, the caller must not hold the interpreter's lock: a foreign owner may need it. On the thread of this crate, and in a child made by
/// `fork`, it returns at once.
///
/// # Errors
/// The first error of a wait for the device since the last call. The memory is then leaked.
pub fn settle() -> um_backend::Result<()> {
    let Some(thread) = own().filter(|thread| thread.id != thread::current().id()) else {
        return Ok(());
    };
    let (done, settled) = channel();
    // Without an answer the thread has ended.
    match thread.sender.send(Message::Settle(done)) {
        Ok(()) => settled.recv().unwrap_or(Ok(())),
        Err(_) => Ok(()),
    }
}
