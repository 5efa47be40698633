//! Streams: queues of work, each run in order by its own thread.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::core::Core;
use super::foreign::send_events;
use super::state::State;
use super::status::Code;
use super::thread::this_thread;

/// How a stream stands to the legacy default stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StreamKind {
    /// The legacy default stream itself.
    Legacy,
    /// Takes turns with the legacy default stream.
    Blocking,
    /// Independent of it.
    NonBlocking,
}

/// Work of a stream: given its start on the virtual clock, runs and says its end.
pub(crate) type Work = Box<dyn FnOnce(&Arc<Core>, Duration) -> Duration + Send>;

/// A piece of work's end.
pub(crate) struct Completion {
    /// The stream's handle.
    pub(crate) stream: usize,
    /// The work's number on the stream, from 1.
    pub(crate) seq: u64,
    done: Mutex<Option<Duration>>,
    changed: Condvar,
}

impl Completion {
    /// Blocks until the work has run; its end on the virtual clock.
    pub(crate) fn wait(&self) -> Duration {
        let mut done = self.done.lock();
        loop {
            match *done {
                Some(at) => return at,
                None => self.changed.wait(&mut done),
            }
        }
    }

    /// The work's end, if it has run.
    pub(crate) fn get(&self) -> Option<Duration> {
        *self.done.lock()
    }

    fn finish(&self, at: Duration) {
        *self.done.lock() = Some(at);
        self.changed.notify_all();
    }
}

/// What a device without concurrent managed access has run on a stream, as far as the host has seen.
#[derive(Debug, Default)]
pub(crate) struct Launched {
    /// Number of the last kernel enqueued.
    pub(crate) kernel: u64,
    /// Everything up to here was seen to complete.
    pub(crate) observed: u64,
    /// At this number the stream waited for that number of another stream.
    pub(crate) after: Vec<(u64, usize, u64)>,
}

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
    queue: Mutex<Queue>,
    changed: Condvar,
    /// Its thread waits for another stream.
    waiting: AtomicBool,
}

/// What a stream's thread does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Activity {
    /// It has nothing to do.
    Idle,
    /// It waits for another stream.
    Waiting,
    /// Neither.
    Working,
}

impl Stream {
    fn new(handle: usize, device: usize, kind: StreamKind) -> Arc<Stream> {
        Arc::new(Stream {
            handle,
            device,
            kind,
            queue: Mutex::default(),
            changed: Condvar::new(),
            waiting: AtomicBool::new(false),
        })
    }

    /// What its thread does now.
    pub(crate) fn activity(&self) -> Activity {
        if self.last().is_none_or(|last| last.get().is_some()) {
            Activity::Idle
        } else if self.waiting.load(Ordering::Acquire) {
            Activity::Waiting
        } else {
            Activity::Working
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

    fn push(
        self: &Arc<Self>,
        core: &Arc<Core>,
        enqueued: Duration,
        after: Vec<Arc<Completion>>,
        work: Work,
    ) -> Arc<Completion> {
        let mut queue = self.queue.lock();
        queue.enqueued += 1;
        let done = Arc::new(Completion {
            stream: self.handle,
            seq: queue.enqueued,
            done: Mutex::new(None),
            changed: Condvar::new(),
        });
        queue.last = Some(done.clone());
        queue.ops.push_back(Op {
            enqueued,
            after,
            work,
            done: done.clone(),
        });
        if queue.worker.is_none() {
            let (stream, core) = (self.clone(), core.clone());
            let worker = std::thread::Builder::new()
                .name(format!("sim-stream-{:x}", self.handle))
                .spawn(move || stream.run(&core));
            match worker {
                Ok(worker) => queue.worker = Some(worker),
                Err(error) => panic!("no thread for a simulated stream: {error}"),
            }
        }
        drop(queue);
        self.changed.notify_all();
        done
    }

    fn run(&self, core: &Arc<Core>) {
        let mut now = Duration::ZERO;
        loop {
            let op = {
                let mut queue = self.queue.lock();
                loop {
                    if let Some(op) = queue.ops.pop_front() {
                        break op;
                    }
                    if queue.closing {
                        return;
                    }
                    self.changed.wait(&mut queue);
                }
            };
            core.pass_gate(self.handle);
            let mut start = now.max(op.enqueued);
            for completion in op.after {
                if completion.get().is_none() {
                    self.waiting.store(true, Ordering::Release);
                }
                start = start.max(completion.wait());
                self.waiting.store(false, Ordering::Release);
            }
            now = core.work(|| (op.work)(core, start)).unwrap_or(start);
            op.done.finish(now);
            // A subscriber may wait for this very work.
            send_events();
        }
    }
}

impl State {
    /// Every stream, the default ones and the retired ones too.
    pub(crate) fn all_streams(&self) -> impl Iterator<Item = &Arc<Stream>> {
        self.streams
            .values()
            .chain(self.legacy.values())
            .chain(self.per_thread.values())
            .chain(&self.retired)
    }

    pub(crate) fn create_stream(&mut self, device: usize, kind: StreamKind) -> Arc<Stream> {
        let handle = self.handle();
        let stream = Stream::new(handle, device, kind);
        self.streams.insert(handle, stream.clone());
        stream
    }

    /// The stream that a caller names: 0 and 1 are the device's legacy default stream, 2 the thread's own.
    pub(crate) fn stream(&mut self, raw: usize, device: usize) -> Result<Arc<Stream>, Code> {
        match raw {
            0 | 1 => {
                let handle = self.handle();
                let new = || Stream::new(handle, device, StreamKind::Legacy);
                Ok(self.legacy.entry(device).or_insert_with(new).clone())
            }
            2 => {
                let handle = self.handle();
                let new = || Stream::new(handle, device, StreamKind::Blocking);
                Ok(self
                    .per_thread
                    .entry((device, this_thread()))
                    .or_insert_with(new)
                    .clone())
            }
            handle => self
                .streams
                .get(&handle)
                .cloned()
                .ok_or(Code::INVALID_RESOURCE_HANDLE),
        }
    }

    /// Forgets a stream; its work still runs.
    pub(crate) fn destroy_stream(&mut self, raw: usize) -> Result<(), Code> {
        let stream = self
            .streams
            .remove(&raw)
            .ok_or(Code::INVALID_RESOURCE_HANDLE)?;
        stream.close();
        self.retired
            .retain(|retired| retired.last().is_some_and(|last| last.get().is_none()));
        self.retired.push(stream);
        Ok(())
    }

    /// Adds work to a stream, after `after` and after what the legacy default stream's rules ask for.
    pub(crate) fn enqueue(
        &mut self,
        core: &Arc<Core>,
        stream: &Arc<Stream>,
        mut after: Vec<Arc<Completion>>,
        work: Work,
    ) -> Arc<Completion> {
        match stream.kind {
            StreamKind::Legacy => after.extend(
                self.all_streams()
                    .filter(|other| {
                        other.device == stream.device && other.kind == StreamKind::Blocking
                    })
                    .filter_map(|other| other.last()),
            ),
            StreamKind::Blocking => after.extend(
                self.legacy
                    .get(&stream.device)
                    .and_then(|legacy| legacy.last()),
            ),
            StreamKind::NonBlocking => {}
        }
        let waits: Vec<_> = after
            .iter()
            .map(|completion| (completion.stream, completion.seq))
            .collect();
        after.retain(|completion| completion.get().is_none_or(|at| at > self.now));
        let done = stream.push(core, self.now, after, work);
        if !core.machine.concurrent {
            let launched = self.launched.entry(stream.handle).or_default();
            launched
                .after
                .extend(waits.into_iter().map(|(other, seq)| (done.seq, other, seq)));
        }
        done
    }
}
