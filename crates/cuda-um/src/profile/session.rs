//! What the program asks for while a profiler runs: buffers and operations, stamped with the clock of the records.

use crate::context::device::Device;
use crate::context::driver_state::DriverState;
use crate::context::observer::{Part, What};
use crate::context::stream::StreamInner;
use crate::driver::location::Location;
use crate::fork::Origin;
use crate::profile::options::ProfileOptions;
use crate::resource::allocation::RawBuffer;
use crate::sync::Mutex;
use cuda_um_trace::{Access, Buffer, Operation, OperationKind, Place, fitting_name};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Whether a profiler collects operations. All that the library asks when none does.
static ACTIVE: AtomicBool = AtomicBool::new(false);
/// The process in which it does: its children have none, and what it collects may be locked there for good.
static COLLECTS_IN: AtomicU32 = AtomicU32::new(0);
static SESSION: Mutex<Option<Session>> = Mutex::new(None);

/// The clock of the records, in nanoseconds.
pub(crate) type Clock = Box<dyn Fn() -> u64 + Send + Sync>;

/// What was collected so far.
pub(crate) struct Session {
    /// One for each start, so that a guard of an earlier profile says nothing to this one.
    number: u64,
    /// Operations of other drivers (other simulators) are none of its business.
    driver: Arc<DriverState>,
    clock: Clock,
    most: usize,
    pub(crate) start: u64,
    pub(crate) buffers: Vec<Buffer>,
    /// Where each buffer is in `buffers`.
    known: HashMap<u64, usize>,
    pub(crate) operations: Vec<Operation>,
    pub(crate) dropped: u64,
}

/// A host guard of one profile: its operation.
pub(crate) struct Token {
    session: u64,
    operation: usize,
}

/// A host guard that was not dropped yet.
pub(crate) const OPEN: u64 = u64::MAX;

/// Whether a profiler runs, of whatever driver.
#[inline]
pub(crate) fn is_active() -> bool {
    ACTIVE.load(Ordering::Relaxed) && COLLECTS_IN.load(Ordering::Relaxed) == Origin::here().number()
}

/// Begins to collect.
pub(crate) fn begin(driver: Arc<DriverState>, clock: Clock, options: &ProfileOptions) {
    static NUMBER: Mutex<u64> = Mutex::new(0);
    let mut number = NUMBER.lock();
    *number += 1;
    *SESSION.lock() = Some(Session {
        number: *number,
        driver,
        most: options.max_operations,
        start: clock(),
        clock,
        buffers: Vec::new(),
        known: HashMap::new(),
        operations: Vec::new(),
        dropped: 0,
    });
    COLLECTS_IN.store(Origin::here().number(), Ordering::Relaxed);
    ACTIVE.store(true, Ordering::Relaxed);
}

/// Ends it.
pub(crate) fn end() -> Option<Session> {
    ACTIVE.store(false, Ordering::Relaxed);
    SESSION.lock().take()
}

/// Uses the session, if there is one for the driver of this device.
fn with<R>(device: &Device, use_it: impl FnOnce(&mut Session) -> R) -> Option<R> {
    let mut session = SESSION.lock();
    let session = session.as_mut()?;
    Arc::ptr_eq(&session.driver, &device.state().driver).then(|| use_it(session))
}

/// The time, if there is a profiler for this device.
#[cold]
pub(crate) fn now(device: &Device) -> Option<u64> {
    with(device, |session| (session.clock)())
}

/// An operation that began at `start` is done, or enqueued.
#[cold]
pub(crate) fn operation(
    start: u64,
    what: &What<'_>,
    device: &Device,
    stream: Option<&StreamInner>,
    parts: Vec<Part<'_>>,
) {
    with(device, |session| {
        let accesses = parts
            .into_iter()
            .filter_map(|part| session.access(&part))
            .collect();
        let operation = Operation {
            id: 0,
            kind: kind(what),
            stream: stream.map(StreamInner::id),
            device: stream.map_or(device.ordinal(), StreamInner::ordinal),
            start,
            end: (session.clock)(),
            accesses,
        };
        session.push(operation);
    });
}

/// The host gets a guard.
#[cold]
pub(crate) fn host_begins(part: Part<'_>) -> Option<Token> {
    let device = part.raw.device();
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

/// The host's guard is dropped.
#[cold]
pub(crate) fn host_ends(token: Token) {
    // Else the profile that it belongs to is over, or this is a child of the process that has it.
    if !is_active() {
        return;
    }
    let mut session = SESSION.lock();
    if let Some(session) = session
        .as_mut()
        .filter(|session| session.number == token.session)
        && let Some(operation) = session.operations.get_mut(token.operation)
    {
        operation.end = (session.clock)();
    }
}

/// A buffer was made, or named.
#[cold]
pub(crate) fn made(raw: &RawBuffer) {
    with(raw.device(), |session| {
        let now = (session.clock)();
        let at = session.buffer(raw, Some(now));
        if let Some(at) = at {
            session.buffers[at].name = name(raw);
        }
    });
}

/// A buffer is dropped.
#[cold]
pub(crate) fn dropped(raw: &RawBuffer) {
    with(raw.device(), |session| {
        if let Some(&at) = session.known.get(&raw.id()) {
            session.buffers[at].freed = Some((session.clock)());
        }
    });
}

impl Session {
    pub(crate) fn now(&self) -> u64 {
        (self.clock)()
    }

    fn push(&mut self, operation: Operation) -> Option<usize> {
        if self.operations.len() >= self.most {
            self.dropped += 1;
            return None;
        }
        self.operations.push(operation);
        Some(self.operations.len() - 1)
    }

    fn access(&mut self, part: &Part<'_>) -> Option<Access> {
        if part.bytes.is_empty() {
            return None;
        }
        self.buffer(part.raw, None)?;
        Some(Access {
            buffer: part.raw.id(),
            offset: part.bytes.start as u64,
            bytes: part.bytes.len() as u64,
            write: part.write,
        })
    }

    /// Where the buffer is in the list. One that is seen for the first time in an operation was made before the profile began.
    fn buffer(&mut self, raw: &RawBuffer, allocated: Option<u64>) -> Option<usize> {
        if let Some(&at) = self.known.get(&raw.id()) {
            return Some(at);
        }
        if raw.bytes() == 0 {
            return None;
        }
        let address = raw.pointer().as_ptr().addr();
        let slab = raw
            .slab()
            .and_then(|slab| self.slab(raw, slab.buffer, slab.start as u64, slab.bytes as u64));
        let label = raw.label();
        let site = label.and_then(|label| label.site);
        self.add(Buffer {
            id: raw.id(),
            name: name(raw),
            site: site.map(|site| format!("{}:{}", site.file(), site.line())),
            address: address as u64,
            bytes: raw.bytes() as u64,
            element_bytes: label.map_or(1, |label| label.element_bytes as u32),
            managed: raw.is_managed(),
            slab,
            device: raw.device().ordinal(),
            allocated,
            freed: None,
        })
    }

    /// The slab that a buffer is a part of, which was made before the profile began if it is not known.
    fn slab(&mut self, part: &RawBuffer, id: u64, address: u64, bytes: u64) -> Option<u64> {
        if !self.known.contains_key(&id) {
            self.add(Buffer {
                id,
                name: crate::label::Label::slab().describe(bytes as usize),
                site: None,
                address,
                bytes,
                element_bytes: 1,
                managed: part.is_managed(),
                slab: None,
                device: part.device().ordinal(),
                allocated: None,
                freed: None,
            })?;
        }
        Some(id)
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

/// The name that the program gave, or one of its type and length.
fn name(raw: &RawBuffer) -> String {
    match (raw.name(), raw.label()) {
        (Some(name), _) => fitting_name(name).to_owned(),
        (None, Some(label)) => label.describe(raw.bytes()),
        (None, None) => format!("{} memory", raw.kind()),
    }
}

fn kind(what: &What<'_>) -> OperationKind {
    match *what {
        What::Launch(kernel) => OperationKind::Launch {
            kernel: fitting_name(kernel).to_owned(),
        },
        What::Prefetch { to, left_out } => OperationKind::Prefetch {
            to: place(to),
            left_out,
        },
        What::Advise(advice) => {
            let (name, at) = advice.in_cudas_words();
            OperationKind::Advise {
                advice: name.to_owned(),
                place: at.map(place),
            }
        }
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
