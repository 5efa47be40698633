//! The program's calls while a profiler runs: buffers and operations, with times of the records' clock.

use crate::context::device::Device;
use crate::context::driver_state::DriverState;
use crate::context::observer::{self, Observer, Token, What};
use crate::context::stream::StreamInner;
use crate::context::tracked::{Description, Part, SlabId, Tracked};
use crate::driver::location::Location;
use crate::label::Label;
use crate::profile::options::ProfileOptions;
use crate::sync::Mutex;
use cuda_um_trace::{AccessedRange, Buffer, Operation, OperationKind, Place, fitting_name};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

static SESSION: Mutex<Option<Session>> = Mutex::new(None);

/// The clock of the records, in nanoseconds.
pub(super) type Clock = Box<dyn Fn() -> u64 + Send + Sync>;

/// The buffers and operations of the running profile.
pub(super) struct Session {
    /// The number of the start: a guard of an earlier profile does not end an operation of this one.
    number: u64,
    /// The session ignores operations of other drivers (other simulators).
    driver: Arc<DriverState>,
    clock: Clock,
    most: usize,
    pub(super) start: u64,
    pub(super) buffers: Vec<Buffer>,
    /// The index of each buffer in `buffers`.
    known: HashMap<u64, usize>,
    pub(super) operations: Vec<Operation>,
    pub(super) dropped: u64,
}

/// The end time of a host guard that is not dropped yet.
const OPEN: u64 = u64::MAX;

/// Starts a session.
pub(super) fn begin(driver: Arc<DriverState>, clock: Clock, options: &ProfileOptions) {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    // Relaxed: the numbers need only differ.
    let number = NUMBER.fetch_add(1, Ordering::Relaxed) + 1;
    *SESSION.lock() = Some(Session {
        number,
        driver,
        most: options.max_operations,
        start: clock(),
        clock,
        buffers: Vec::new(),
        known: HashMap::new(),
        operations: Vec::new(),
        dropped: 0,
    });
    observer::start(&Collects);
}

/// Ends the session and returns it.
pub(super) fn end() -> Option<Session> {
    observer::stop();
    SESSION.lock().take()
}

/// Calls `use_it` with the session, if there is one for the driver of this device.
fn with<R>(device: &Device, use_it: impl FnOnce(&mut Session) -> R) -> Option<R> {
    let mut session = SESSION.lock();
    let session = session.as_mut()?;
    Arc::ptr_eq(&session.driver, &device.state().driver).then(|| use_it(session))
}

/// The observer that fills the session.
struct Collects;

impl Observer for Collects {
    fn now(&self, device: &Device) -> Option<u64> {
        with(device, |session| (session.clock)())
    }

    fn operation(
        &self,
        start: u64,
        what: What<'_>,
        device: &Device,
        stream: Option<&StreamInner>,
        parts: &mut dyn Iterator<Item = Part<'_>>,
    ) {
        with(device, |session| {
            let operation = Operation {
                id: 0,
                kind: kind(what),
                stream: stream.map(StreamInner::id),
                device: stream.map_or(device.ordinal(), StreamInner::ordinal),
                start,
                end: (session.clock)(),
                accesses: parts.filter_map(|part| session.access(&part)).collect(),
            };
            session.push(operation);
        });
    }

    fn host_begins(&self, part: Part<'_>) -> Option<Token> {
        let device = part.memory.device();
        with(device, |session| {
            let operation = Operation {
                id: 0,
                kind: OperationKind::Host,
                stream: None,
                device: device.ordinal(),
                start: (session.clock)(),
                end: OPEN,
                accesses: session.access(&part).into_iter().collect(),
            };
            let operation = session.push(operation)?;
            Some(Token {
                session: session.number,
                operation,
            })
        })
        .flatten()
    }

    fn host_ends(&self, token: Token) {
        let mut session = SESSION.lock();
        // For a token of an earlier session, do nothing.
        if let Some(session) = session
            .as_mut()
            .filter(|session| session.number == token.session)
            && let Some(operation) = session.operations.get_mut(token.operation)
        {
            operation.end = (session.clock)();
        }
    }

    fn made(&self, memory: &dyn Tracked) {
        with(memory.device(), |session| {
            let now = (session.clock)();
            if let Some(at) = session.buffer(memory, Some(now)) {
                session.buffers[at].name = name(&memory.describe());
            }
        });
    }

    fn dropped(&self, memory: &dyn Tracked) {
        with(memory.device(), |session| {
            if let Some(&at) = session.known.get(&memory.describe().id) {
                session.buffers[at].freed = Some((session.clock)());
            }
        });
    }
}

impl Session {
    pub(super) fn now(&self) -> u64 {
        (self.clock)()
    }

    /// Ends the open operations, and brings all into the order of their starts.
    pub(super) fn close(&mut self, end: u64) {
        // An operation of a guard that still lives has its start time, so sort by start time.
        self.operations.sort_by_key(|operation| operation.start);
        for (id, operation) in self.operations.iter_mut().enumerate() {
            operation.id = id as u64;
            if operation.end == OPEN {
                operation.end = end;
            }
            // CUPTI's clock is the system's, which can be set back.
            operation.end = operation.end.max(operation.start);
        }
        for buffer in &mut self.buffers {
            buffer.freed = buffer.freed.max(buffer.freed.and(buffer.allocated));
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
        if part.bytes.is_empty() {
            return None;
        }
        self.buffer(part.memory, None)?;
        Some(AccessedRange {
            buffer: part.memory.describe().id,
            offset: part.bytes.start as u64,
            bytes: part.bytes.len() as u64,
            write: part.access.is_write(),
        })
    }

    /// Returns the index of the buffer in the list. A buffer that an operation uses before its creation was seen existed before the
    /// profile.
    fn buffer(&mut self, memory: &dyn Tracked, allocated: Option<u64>) -> Option<usize> {
        let described = memory.describe();
        if let Some(&at) = self.known.get(&described.id) {
            return Some(at);
        }
        if described.bytes == 0 {
            return None;
        }
        let device = memory.device().ordinal();
        let slab = described.slab.as_ref();
        let slab = slab.and_then(|slab| self.slab(slab, described.is_managed, device));
        let site = described.label.and_then(|label| label.site);
        self.add(Buffer {
            id: described.id,
            name: name(&described),
            site: site.map(|site| format!("{}:{}", site.file(), site.line())),
            address: described.address as u64,
            bytes: described.bytes as u64,
            element_bytes: described
                .label
                .map_or(1, |label| label.element_bytes as u32),
            managed: described.is_managed,
            slab,
            device,
            allocated,
            freed: None,
        })
    }

    /// Returns the slab of which a buffer is a part. A slab that is not in the list existed before the profile.
    fn slab(&mut self, slab: &SlabId, managed: bool, device: u32) -> Option<u64> {
        if !self.known.contains_key(&slab.buffer) {
            self.add(Buffer {
                id: slab.buffer,
                name: Label::slab().describe(slab.bytes),
                site: None,
                address: slab.start as u64,
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

/// Returns the name that the program set, or one from the type and length.
fn name(described: &Description<'_>) -> String {
    match (described.name, described.label) {
        (Some(name), _) => fitting_name(name).to_owned(),
        (None, Some(label)) => label.describe(described.bytes),
        (None, None) => format!("{} memory", described.kind),
    }
}

fn kind(what: What<'_>) -> OperationKind {
    match what {
        What::Launch(kernel) => OperationKind::Launch {
            kernel: fitting_name(kernel).to_owned(),
        },
        What::Prefetch { to, elided } => OperationKind::Prefetch {
            to: place(to),
            left_out: elided,
        },
        What::Advise(name, at) => OperationKind::Advise {
            advice: name.to_owned(),
            place: at.map(place),
        },
        What::Copy => OperationKind::Copy,
        What::Fill => OperationKind::Fill,
    }
}

fn place(location: Location) -> Place {
    match location {
        Location::Device(ordinal) => Place::Device(ordinal),
        Location::Host | Location::HostNuma(_) | Location::HostNumaCurrent => Place::Host,
    }
}
