//! A stream: a queue of work that its own thread runs in order.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use cuda_um_sys::locks::{Condvar, Mutex};

use super::completion::Completion;
use super::context::Context;
use crate::engine::foreign::send_events;

/// How a stream is ordered with the legacy default stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StreamKind {
    /// The legacy default stream itself.
    Legacy,
    /// Takes turns with the legacy default stream.
    Blocking,
    /// Independent of it.
    NonBlocking,
}

/// A piece of work: takes its start on the virtual clock, runs, and returns its end.
pub(crate) type Work = Box<dyn FnOnce(Duration) -> Duration + Send>;

struct Op {
    enqueued: Duration,
    after: Vec<Arc<Completion>>,
    work: Work,
    done: Arc<Completion>,
}

#[derive(Default)]
struct Queue {
    ops: VecDeque<Op>,
    enqueued: u64,
    last: Option<Arc<Completion>>,
    closing: bool,
    worker: Option<JoinHandle<()>>,
}

/// A stream.
pub(crate) struct Stream {
    pub(crate) handle: usize,
    pub(crate) device: usize,
    pub(crate) kind: StreamKind,
    context: Arc<Context>,
    queue: Mutex<Queue>,
    changed: Condvar,
    /// Its thread waits for another stream.
    waiting: AtomicBool,
}

/// The present occupation of a stream's thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Progress {
    /// It has no work.
    Idle,
    /// It waits for another stream.
    Waiting,
    /// It runs work.
    Working,
}

impl Stream {
    pub(super) fn new(
        handle: usize,
        device: usize,
        kind: StreamKind,
        context: &Arc<Context>,
    ) -> Arc<Stream> {
        Arc::new(Stream {
            handle,
            device,
            kind,
            context: context.clone(),
            queue: Mutex::default(),
            changed: Condvar::new(),
            waiting: AtomicBool::new(false),
        })
    }

    pub(crate) fn progress(&self) -> Progress {
        if self.last().is_none_or(|last| last.get().is_some()) {
            Progress::Idle
        } else if self.waiting.load(Ordering::Acquire) {
            Progress::Waiting
        } else {
            Progress::Working
        }
    }

    /// The end of the last work enqueued, unless there was none.
    pub(crate) fn last(&self) -> Option<Arc<Completion>> {
        self.queue.lock().last.clone()
    }

    /// Lets the thread end after the work enqueued so far.
    pub(crate) fn close(&self) {
        self.queue.lock().closing = true;
        self.changed.notify_all();
    }

    /// Waits for the thread's end, unless this is that thread.
    pub(crate) fn join(&self) {
        let worker = self.queue.lock().worker.take();
        if let Some(worker) = worker
            && worker.thread().id() != std::thread::current().id()
        {
            // A panic of the thread was reported when it happened.
            let _ = worker.join();
        }
    }

    /// Adds work that runs after `after`; `enqueued` is the host's virtual time.
    pub(super) fn push(
        self: &Arc<Self>,
        enqueued: Duration,
        after: Vec<Arc<Completion>>,
        work: Work,
    ) -> Arc<Completion> {
        let mut queue = self.queue.lock();
        queue.enqueued += 1;
        let done = Arc::new(Completion::new(self.handle, queue.enqueued));
        queue.last = Some(done.clone());
        queue.ops.push_back(Op {
            enqueued,
            after,
            work,
            done: done.clone(),
        });
        if queue.worker.is_none() {
            let stream = self.clone();
            let worker = std::thread::Builder::new()
                .name(format!("sim-stream-{:x}", self.handle))
                .spawn(move || stream.run());
            match worker {
                Ok(worker) => queue.worker = Some(worker),
                Err(error) => panic!("no thread for a simulated stream: {error}"),
            }
        }
        drop(queue);
        self.changed.notify_all();
        done
    }

    /// The next work; `None` if the stream is closed and has no more.
    fn next(&self) -> Option<Op> {
        let mut queue = self.queue.lock();
        loop {
            if let Some(op) = queue.ops.pop_front() {
                return Some(op);
            }
            if queue.closing {
                return None;
            }
            self.changed.wait(&mut queue);
        }
    }

    fn run(&self) {
        let mut now = Duration::ZERO;
        while let Some(op) = self.next() {
            self.context.gate.pass(self.handle);
            let mut start = now.max(op.enqueued);
            for completion in op.after {
                if completion.get().is_none() {
                    self.waiting.store(true, Ordering::Release);
                }
                start = start.max(completion.wait());
                self.waiting.store(false, Ordering::Release);
            }
            now = self
                .context
                .work(self.device, || (op.work)(start))
                .unwrap_or(start);
            op.done.finish(now);
            // After the end is known: a subscriber may wait for this very work.
            send_events();
        }
    }
}
