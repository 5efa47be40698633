//! Tensors as they arrive.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread::JoinHandle;

use cuda_um_sys::locks::{Condvar, Mutex};
use um_backend::cuda_um::fork;

use crate::error::{Error, Result};
use crate::load::Job;
use crate::tensor::Tensor;

/// The tensors of [`Weights::load_each`](crate::Weights::load_each), as they arrive. Its drop stops the load: it waits for the round of
/// pieces that is being read.
#[derive(Debug)]
pub struct LoadEach {
    tensors: Receiver<Result<Tensor>>,
    flow: Arc<Flow>,
    thread: Option<JoinHandle<()>>,
}

/// How many bytes the thread has allocated for tensors that were not taken.
#[derive(Debug, Default)]
pub(crate) struct Flow {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    bytes: usize,
    is_stopped: bool,
}

impl LoadEach {
    pub(crate) fn start(job: Job) -> Result<Self> {
        let flow = Arc::clone(&job.plan.flow);
        let (sender, tensors) = mpsc::channel();
        let thread = std::thread::Builder::new().name("um-weights-load".to_owned());
        let thread = thread.spawn(move || {
            // Without a receiver the tensors are dropped.
            let send = |outcome| drop(sender.send(outcome));
            if let Err(error) = job.run(&mut |tensor| send(Ok(tensor))) {
                send(Err(error));
            }
        });
        Ok(Self {
            tensors,
            flow,
            thread: Some(thread.map_err(no_thread)?),
        })
    }
}

/// The error if the system refuses a thread.
pub(crate) fn no_thread(cause: std::io::Error) -> Error {
    Error::of_file("um-weights-load".as_ref(), "start of a thread")(cause)
}

impl Iterator for LoadEach {
    type Item = Result<Tensor>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.tensors.recv();
        if let Ok(Ok(tensor)) = &next {
            self.flow.end(tensor.buffer().size_bytes());
        } else if next.is_err()
            && let Some(Err(panic)) = self.thread.take().map(JoinHandle::join)
        {
            // Of the callback for progress.
            std::panic::resume_unwind(panic);
        }
        next.ok()
    }
}

impl Drop for LoadEach {
    fn drop(&mut self) {
        // A child made by `fork` does not have the thread.
        if fork::is_inherited() {
            std::mem::forget(self.thread.take());
            return;
        }
        drop(StopOnDrop(&self.flow));
        if let Some(thread) = self.thread.take() {
            // A panic was for the receiver, which is gone.
            let _ = thread.join();
        }
    }
}

impl Flow {
    /// Counts bytes that are to be allocated, when there are at most so many or all tensors before were taken. Returns false if the load is stopped.
    pub(crate) fn begin(&self, bytes: usize, most: usize) -> bool {
        let mut state = self.state.lock();
        while !state.is_stopped && state.bytes > 0 && state.bytes.saturating_add(bytes) > most {
            self.changed.wait(&mut state);
        }
        state.bytes += bytes;
        !state.is_stopped
    }

    /// Counts bytes that need no memory.
    pub(crate) fn add(&self, bytes: usize) {
        self.state.lock().bytes += bytes;
    }

    pub(crate) fn end(&self, bytes: usize) {
        self.state.lock().bytes -= bytes;
        self.changed.notify_all();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.state.lock().is_stopped
    }
}

/// Ends the load when it is dropped, also by a panic.
pub(crate) struct StopOnDrop<'a>(pub(crate) &'a Flow);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.state.lock().is_stopped = true;
        self.0.changed.notify_all();
    }
}
