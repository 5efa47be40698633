//! All streams of one simulator, and the order between them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::completion::Completion;
use super::context::Context;
use super::kernels::Kernels;
use super::queue::{Stream, StreamKind, Work};
use crate::engine::handle::Handles;
use crate::engine::machine::Machine;
use crate::engine::status::Code;
use crate::engine::thread::this_thread;

/// All streams of one simulator.
pub(crate) struct Streams {
    machine: Arc<Machine>,
    handles: Handles,
    context: Arc<Context>,
    created: HashMap<usize, Arc<Stream>>,
    /// Legacy default streams, by device.
    legacy: HashMap<usize, Arc<Stream>>,
    /// Default streams of threads, by device and thread.
    per_thread: HashMap<(usize, u64), Arc<Stream>>,
    /// Streams that were destroyed while they had work.
    retired: Vec<Arc<Stream>>,
    kernels: Kernels,
}

impl Streams {
    pub(crate) fn new(machine: Arc<Machine>, handles: Handles, context: Arc<Context>) -> Streams {
        Streams {
            machine,
            handles,
            context,
            created: HashMap::new(),
            legacy: HashMap::new(),
            per_thread: HashMap::new(),
            retired: Vec::new(),
            kernels: Kernels::default(),
        }
    }

    /// Every stream, also the default streams and the destroyed ones that have work.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Stream>> {
        self.created
            .values()
            .chain(self.legacy.values())
            .chain(self.per_thread.values())
            .chain(&self.retired)
    }

    /// The number of streams that were created and not destroyed.
    pub(crate) fn created(&self) -> usize {
        self.created.len()
    }

    pub(crate) fn create(&mut self, device: usize, kind: StreamKind) -> Arc<Stream> {
        let handle = self.handles.fresh();
        let stream = Stream::new(handle, device, kind, &self.context);
        self.created.insert(handle, stream.clone());
        stream
    }

    /// The stream that a caller names: 0 and 1 are the device's legacy default stream, 2 is the thread's default stream.
    pub(crate) fn get(&mut self, raw: usize, device: usize) -> Result<Arc<Stream>, Code> {
        let (handles, context) = (&self.handles, &self.context);
        let new = |kind| {
            let handle = handles.fresh();
            move || Stream::new(handle, device, kind, context)
        };
        match raw {
            0 | 1 => {
                let new = new(StreamKind::Legacy);
                Ok(self.legacy.entry(device).or_insert_with(new).clone())
            }
            2 => {
                let new = new(StreamKind::Blocking);
                let stream = self.per_thread.entry((device, this_thread()));
                Ok(stream.or_insert_with(new).clone())
            }
            handle => self
                .created
                .get(&handle)
                .cloned()
                .ok_or(Code::INVALID_RESOURCE_HANDLE),
        }
    }

    /// Forgets a stream; its work still runs.
    pub(crate) fn destroy(&mut self, raw: usize) -> Result<(), Code> {
        let stream = self
            .created
            .remove(&raw)
            .ok_or(Code::INVALID_RESOURCE_HANDLE)?;
        stream.close();
        self.retired
            .retain(|retired| retired.last().is_some_and(|last| last.get().is_none()));
        self.retired.push(stream);
        Ok(())
    }

    /// Forgets every stream.
    pub(crate) fn clear(&mut self) {
        self.created.clear();
        self.legacy.clear();
        self.per_thread.clear();
        self.retired.clear();
    }

    /// Adds work to a stream at the host's virtual time `now`, after `after` and in the order of the legacy default stream.
    pub(crate) fn enqueue(
        &mut self,
        now: Duration,
        stream: &Arc<Stream>,
        mut after: Vec<Arc<Completion>>,
        work: Work,
    ) -> Arc<Completion> {
        match stream.kind {
            StreamKind::Legacy => after.extend(
                self.iter()
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
        let waits = after
            .iter()
            .map(|completion| (completion.stream, completion.seq))
            .collect();
        after.retain(|completion| completion.get().is_none_or(|at| at > now));
        let done = stream.push(now, after, work);
        if !self.machine.concurrent {
            self.kernels.add_waits(&done, waits);
        }
        done
    }

    /// Adds a kernel to a stream.
    pub(crate) fn enqueue_kernel(
        &mut self,
        now: Duration,
        stream: &Arc<Stream>,
        after: Vec<Arc<Completion>>,
        work: Work,
    ) -> Arc<Completion> {
        let done = self.enqueue(now, stream, after, work);
        if !self.machine.concurrent {
            self.kernels.add(&done);
        }
        done
    }

    /// The host has seen this work complete.
    pub(crate) fn observe(&mut self, completion: &Completion) {
        self.kernels.observe(completion);
    }

    /// Whether a kernel that the host has not seen to complete is on one of the streams that `may_use` accepts. Always false if devices
    /// have concurrent managed access.
    pub(crate) fn kernel_in_flight(&self, may_use: impl Fn(usize) -> bool) -> bool {
        self.kernels.any_in_flight(may_use)
    }
}
