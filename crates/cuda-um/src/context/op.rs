//! Operations: what the library does with memory, as streams, captures and observers have it.

use crate::context::capture::NO_WAIT;
use crate::context::device::Device;
#[cfg(doc)]
use crate::context::observer::Told;
use crate::context::stream::Stream;
use crate::context::tracked::Part;
use crate::context::tracker::InFlight;
use crate::driver::advice::Advice;
use crate::driver::location::Location;
use crate::telemetry::{self, Entered};

/// What an operation does.
///
/// Work that a capture records is no operation; each launch of the graph is one.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum What<'a> {
    /// The launch of a kernel.
    Launch {
        /// The name of the kernel.
        kernel: &'a str,
        /// The number of blocks in each dimension.
        grid: [u32; 3],
        /// The number of threads of a block in each dimension.
        block: [u32; 3],
    },
    /// The launch of a graph.
    Graph {
        /// The name of the graph.
        name: &'a str,
    },
    /// Work of another library.
    Foreign,
    /// A prefetch. If all pages are there, it is left out: it has no `before`, and [`Told::is_elided`] returns true.
    Prefetch {
        /// The destination.
        to: Location,
    },
    /// Advice of the program.
    Advise(Advice),
    /// A copy. Without a stream it is complete when `after` runs.
    Copy,
    /// A fill. Without a stream the host did it.
    Fill,
    /// The host gets access to memory, in `after`. Without an error, [`HostEnd`](Self::HostEnd) follows.
    Host {
        /// False if the access is refused where it would have to wait.
        waits: bool,
    },
    /// The host's access ended, maybe on another thread. Only `after` is called.
    HostEnd {
        /// The [number](Op::number) of the operation that began it.
        began: u64,
    },
    /// A buffer was allocated. Only `after` is called. Of a pool's slabs only [`BufferInfo::slab`](crate::observe::BufferInfo) tells.
    Allocate,
    /// A buffer got a name. Only `after` is called.
    Name,
    /// The memory of a buffer is about to go back to its owner. Only `before` is called.
    Free,
}

/// An operation.
#[derive(Clone)]
pub struct Op<'a> {
    pub(super) number: u64,
    what: What<'a>,
    device: &'a Device,
    pub(super) stream: Option<&'a Stream>,
    parts: &'a [Part<'a>],
    /// The uses of the kernels that the work runs: they stay loaded until it is done.
    pub(crate) module: Option<&'a InFlight>,
    in_capture: InCapture,
    /// False for a part of an operation.
    pub(super) is_told: bool,
}

impl<'a> Op<'a> {
    #[inline]
    pub(crate) fn new(what: What<'a>, device: &'a Device, parts: &'a [Part<'a>]) -> Self {
        Self {
            number: 0,
            what,
            device,
            stream: None,
            parts,
            module: None,
            in_capture: InCapture::Records,
            is_told: true,
        }
    }

    /// Work of a copy from or to the host, or of an export: a capture refuses it. Observers hear of an outer operation.
    #[inline]
    pub(crate) fn with_host(device: &'a Device, parts: &'a [Part<'a>]) -> Self {
        Self {
            is_told: false,
            in_capture: InCapture::Refuses(NO_WAIT),
            ..Self::new(What::Copy, device, parts)
        }
    }

    /// Sets what a capture of the thread does with the work.
    pub(crate) fn in_capture(mut self, in_capture: InCapture) -> Self {
        self.in_capture = in_capture;
        self
    }

    /// Observers do not hear of this: it is a part of an operation that they hear of, or work of the library itself.
    pub(crate) fn untold(mut self) -> Self {
        self.is_told = false;
        self
    }

    pub(crate) fn capture_rule(&self) -> InCapture {
        self.in_capture
    }

    /// The work in words, for the errors of captures.
    pub(crate) fn words(&self) -> String {
        match self.what {
            What::Launch { kernel, .. } => format!("a launch of kernel `{kernel}`"),
            What::Graph { .. } => "a launch of a graph".to_owned(),
            What::Foreign => "work of another library".to_owned(),
            What::Prefetch { .. } => "a prefetch".to_owned(),
            What::Fill => "a fill".to_owned(),
            What::Copy if self.is_told => "a copy".to_owned(),
            _ => "a copy from or to the host, or an export".to_owned(),
        }
    }

    /// A number that no other operation of the process has. Its [`Told`] has the same.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// What it does.
    #[must_use]
    pub fn what(&self) -> What<'a> {
        self.what
    }

    /// The device of the kernel, or of the memory.
    #[must_use]
    pub fn device(&self) -> &'a Device {
        self.device
    }

    /// The stream; `None` if the operation is complete when `after` runs.
    #[must_use]
    pub fn stream(&self) -> Option<&'a Stream> {
        self.stream
    }

    /// The memory that it uses.
    #[must_use]
    pub fn parts(&self) -> &'a [Part<'a>] {
        self.parts
    }

    pub(super) fn span(&self) -> Entered {
        let (device, one) = (self.device.ordinal(), self.parts.first());
        let buffer = one.map(Part::buffer);
        let bytes: usize = self.parts.iter().map(|part| part.bytes.len()).sum();
        match self.what {
            What::Launch { kernel, .. } => telemetry::span!("launch", kernel, device),
            What::Graph { .. } => telemetry::span!("launch of a graph", device),
            What::Prefetch { to } => match self.parts.len() {
                1 => telemetry::span!("prefetch", buffer, bytes, location = %to),
                ranges => telemetry::span!("prefetch", ranges, location = %to),
            },
            What::Advise(advice) => telemetry::span!("advise", buffer, ?advice),
            What::Fill => telemetry::span!("fill", buffer, bytes),
            What::Copy => {
                let end = |writes| self.parts.iter().find(|part| part.writes() == writes);
                let (from, to) = (end(false), end(true));
                let bytes = from.or(to).map_or(0, |part| part.bytes.len());
                let (from, to) = (from.map(Part::buffer), to.map(Part::buffer));
                telemetry::span!("copy", from, to, bytes)
            }
            What::Host { waits: true } => {
                let access = self.parts[0].access;
                telemetry::span!("host wait", buffer, ?access)
            }
            _ => Entered::none(),
        }
    }
}

/// What a capture of the thread does with work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InCapture {
    /// It records the work.
    Records,
    /// It refuses the work, for this reason.
    Refuses(&'static str),
    /// It is no part of it: work of the library itself.
    Ignores,
}
