//! The program's calls while a profiler runs: buffers and operations, with times of the records' clock.

use crate::lock::Mutex;
use cuda_um::observe::{Observer, Op, Part, SlabInfo, Told, What};
use cuda_um::{Advice, Device, Location, Runtime};
use cuda_um_trace::{AccessedRange, Buffer, Operation, OperationKind, Place};
use std::collections::HashMap;

/// The clock of the records, in nanoseconds.
pub(crate) type Clock = Box<dyn Fn() -> u64 + Send + Sync>;

pub(crate) struct Recorder {
    /// Operations of other drivers (other simulators) are ignored.
    runtime: Runtime,
    clock: Clock,
    session: Mutex<Session>,
}

#[derive(Default)]
pub(crate) struct Session {
    most: usize,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) buffers: Vec<Buffer>,
    known: HashMap<u64, usize>,
    pub(crate) operations: Vec<Operation>,
    /// The start of each operation that has begun, by its number.
    begun: HashMap<u64, u64>,
    /// The index of each live host guard in `operations`, by the number of its operation.
    guards: HashMap<u64, usize>,
    pub(crate) dropped: u64,
}

/// The end time of a host guard that is not dropped yet.
const OPEN: u64 = u64::MAX;

impl Recorder {
    pub(crate) fn new(runtime: Runtime, clock: Clock, most: usize) -> Self {
        let session = Session {
            most,
            start: clock(),
            ..Session::default()
        };
        Self {
            runtime,
            clock,
            session: Mutex::new(session),
        }
    }

    /// A call that still runs on another thread is lost.
    pub(crate) fn end(&self) -> Session {
        let mut session = std::mem::take(&mut *self.session.lock());
        session.end = (self.clock)();
        session
    }

    fn observes(&self, device: &Device) -> bool {
        self.runtime
            .shares_driver(device.runtime())
            .unwrap_or(false)
    }
}

impl Observer for Recorder {
    fn before(&self, op: &Op<'_>) {
        if self.observes(op.device) {
            let mut session = self.session.lock();
            let now = (self.clock)();
            match op.what {
                What::Free => op.parts.iter().for_each(|part| session.freed(part, now)),
                _ => drop(session.begun.insert(op.number, now)),
            }
        }
    }

    fn after(&self, told: &Told<'_>) {
        let op = told.op;
        if !self.observes(op.device) {
            return;
        }
        let mut session = self.session.lock();
        let now = (self.clock)();
        let start = session.begun.remove(&op.number).unwrap_or(now);
        if told.error.is_some() {
            return;
        }
        let kind = match op.what {
            What::Allocate | What::Name => {
                return op.parts.iter().for_each(|part| session.made(part, now));
            }
            What::HostEnd { began } => {
                if let Some(at) = session.guards.remove(&began) {
                    session.operations[at].end = now;
                }
                return;
            }
            what => kind(what, told.is_elided),
        };
        let Some(kind) = kind else { return };
        let is_guard = kind == OperationKind::Host;
        let device = op
            .stream
            .map_or(op.device.ordinal(), |stream| stream.device().ordinal());
        let operation = Operation {
            id: 0,
            kind,
            stream: op.stream.map(cuda_um::Stream::id),
            device,
            start,
            end: if is_guard { OPEN } else { now },
            accesses: op
                .parts
                .iter()
                .filter_map(|part| session.access(part))
                .collect(),
        };
        let at = session.push(operation);
        if let Some(at) = at.filter(|_| is_guard) {
            session.guards.insert(op.number, at);
        }
    }
}

impl Session {
    /// Ends the open operations, and brings all into the order of their starts.
    pub(crate) fn close(&mut self) {
        // An operation of a guard that still lives has its start time, so sort by start time.
        self.operations.sort_by_key(|operation| operation.start);
        for (id, operation) in self.operations.iter_mut().enumerate() {
            operation.id = id as u64;
            if operation.end == OPEN {
                operation.end = self.end;
            }
            // CUPTI's clock is the system's, which can be set back.
            operation.end = operation.end.max(operation.start);
        }
        for buffer in &mut self.buffers {
            buffer.freed = buffer.freed.max(buffer.freed.and(buffer.allocated));
        }
    }

    fn made(&mut self, part: &Part<'_>, now: u64) {
        if let Some(at) = self.buffer(part, Some(now)) {
            self.buffers[at].name = part.info().title();
        }
    }

    fn freed(&mut self, part: &Part<'_>, now: u64) {
        if let Some(&at) = self.known.get(&part.buffer()) {
            self.buffers[at].freed = Some(now);
        }
    }

    fn push(&mut self, operation: Operation) -> Option<usize> {
        if self.operations.len() >= self.most {
            self.dropped += 1;
            return None;
        }
        self.operations.push(operation);
        Some(self.operations.len() - 1)
    }

    fn access(&mut self, part: &Part<'_>) -> Option<AccessedRange> {
        let range = part.range();
        if range.is_empty() {
            return None;
        }
        self.buffer(part, None)?;
        Some(AccessedRange {
            buffer: part.buffer(),
            offset: range.start as u64,
            bytes: range.len() as u64,
            write: part.writes(),
        })
    }

    /// Returns the index of the buffer in the list. A buffer that an operation uses before its creation was seen existed before the
    /// profile.
    fn buffer(&mut self, part: &Part<'_>, allocated: Option<u64>) -> Option<usize> {
        let info = part.info();
        if let Some(&at) = self.known.get(&info.id) {
            return Some(at);
        }
        if info.bytes == 0 {
            return None;
        }
        let device = part.device().ordinal();
        let slab = info.slab.as_ref();
        let slab = slab.and_then(|slab| self.slab(slab, info.is_managed, device));
        self.add(Buffer {
            id: info.id,
            name: info.title(),
            site: info
                .site
                .map(|site| format!("{}:{}", site.file(), site.line())),
            address: info.address as u64,
            bytes: info.bytes as u64,
            element_bytes: info.element_bytes as u32,
            managed: info.is_managed,
            slab,
            device,
            allocated,
            freed: None,
        })
    }

    /// Returns the slab of which a buffer is a part. A slab that is not in the list existed before the profile.
    fn slab(&mut self, slab: &SlabInfo, managed: bool, device: u32) -> Option<u64> {
        if !self.known.contains_key(&slab.buffer) {
            self.add(Buffer {
                id: slab.buffer,
                name: format!("slab<u8>[{}]", slab.bytes),
                site: None,
                address: slab.address as u64,
                bytes: slab.bytes as u64,
                element_bytes: 1,
                managed,
                slab: None,
                device,
                allocated: None,
                freed: None,
            })?;
        }
        Some(slab.buffer)
    }

    fn add(&mut self, buffer: Buffer) -> Option<usize> {
        if self.buffers.len() >= self.most {
            self.dropped += 1;
            return None;
        }
        let at = self.buffers.len();
        self.known.insert(buffer.id, at);
        self.buffers.push(buffer);
        Some(at)
    }
}

/// The kind of an operation in a trace; `None` for one that a trace does not have.
fn kind(what: What<'_>, left_out: bool) -> Option<OperationKind> {
    let launch = |kernel: &str| OperationKind::Launch {
        kernel: kernel.to_owned(),
    };
    Some(match what {
        What::Launch { kernel: name, .. } | What::Graph { name } => launch(name),
        What::Foreign => launch("work of another library"),
        What::Prefetch { to } => OperationKind::Prefetch {
            to: place(to),
            left_out,
        },
        What::Advise(advice) => {
            let (advice, at) = in_cudas_words(advice)?;
            OperationKind::Advise {
                advice: advice.to_owned(),
                place: at.map(place),
            }
        }
        What::Copy => OperationKind::Copy,
        What::Fill => OperationKind::Fill,
        What::Host { .. } => OperationKind::Host,
        _ => return None,
    })
}

/// CUDA's name of advice without the prefix, and the location that the advice names.
fn in_cudas_words(advice: Advice) -> Option<(&'static str, Option<Location>)> {
    Some(match advice {
        Advice::SetReadMostly => ("SetReadMostly", None),
        Advice::UnsetReadMostly => ("UnsetReadMostly", None),
        Advice::SetPreferredLocation(at) => ("SetPreferredLocation", Some(at)),
        Advice::UnsetPreferredLocation => ("UnsetPreferredLocation", None),
        Advice::SetAccessedBy(at) => ("SetAccessedBy", Some(at)),
        Advice::UnsetAccessedBy(at) => ("UnsetAccessedBy", Some(at)),
        _ => return None,
    })
}

fn place(location: Location) -> Place {
    match location {
        Location::Device(ordinal) => Place::Device(ordinal),
        _ => Place::Host,
    }
}
