//! Operations: what the library does with memory, as streams, captures and observers have it.

use crate::context::capture::{KernelNode, NO_WAIT};
use crate::context::device::Device;
#[cfg(doc)]
use crate::context::observer::Told;
use crate::context::stream::Stream;
use crate::context::tracked::Part;
use crate::context::tracker::InFlight;
use crate::driver::advice::Advice;
use crate::driver::location::Location;
use crate::error::Result;

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
        grid: &'a [u32; 3],
        /// The number of threads of a block in each dimension.
        block: &'a [u32; 3],
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
    /// A number that no other operation of the process has. Its [`Told`] has the same.
    pub number: u64,
    /// What it does.
    pub what: What<'a>,
    /// The device of the kernel, or of the memory.
    pub device: &'a Device,
    /// The stream; `None` if the operation is complete when `after` runs.
    pub stream: Option<&'a Stream>,
    /// The memory that it uses.
    pub parts: &'a [Part<'a>],
    /// The uses of the kernels that the work runs: they stay loaded until it is done.
    pub(crate) module: Option<&'a InFlight>,
    /// For a launch of a kernel: makes what a capture keeps of it.
    pub(crate) node: Option<&'a dyn Fn() -> Result<KernelNode>>,
    pub(crate) in_capture: InCapture,
    /// False for a part of an operation that observers hear of, and for work of the library itself.
    pub(crate) is_told: bool,
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
            node: None,
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
