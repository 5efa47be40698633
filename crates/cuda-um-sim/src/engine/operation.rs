//! Operations: work that a call has checked. It is enqueued on a stream, or captured as a node of a graph.

use std::sync::Arc;
use std::time::Duration;

use super::copy::Copy;
use super::core::Core;
use super::foreign::forbid_calls;
use super::graph::{Conditional, GraphMemory, NodeParams};
use super::launch::Kernel;
use super::memory::Span;
use super::memset::Set;
use super::state::State;
use super::status::Code;
use super::stream::{Completion, Stream, Work};

/// A call of a host function.
#[derive(Clone)]
pub(crate) struct HostWork {
    pub(crate) run: Arc<dyn Fn() + Send + Sync>,
    /// The addresses of the function and of its argument.
    pub(crate) given: [usize; 2],
}

/// Work that was checked.
#[derive(Clone)]
pub(super) enum Operation {
    Kernel(Kernel),
    Copy(Copy),
    Set(Set),
    /// The write of a value that the host polls.
    Write(Set),
    Host(HostWork),
    /// Only in graphs: an event of the program is recorded, or waited for.
    Record(usize),
    Wait(usize),
    /// Only in graphs: memory of the graph begins and ends.
    Allocate(Arc<GraphMemory>),
    Free(Arc<GraphMemory>),
    /// Only in graphs: a copy or a memset of several rows, and what the program gave for it.
    Rows(Arc<(NodeParams, Vec<Operation>)>),
    /// Only in graphs: the nodes of a graph of its own.
    Child([usize; 1]),
    Empty,
    /// Only in graphs: a body that runs if, or as long as, a value is not 0.
    Conditional(Conditional),
}

/// How an operation is priced and counted.
pub(super) struct Pricing {
    /// A kernel that accesses no memory.
    pub(super) kernel: Duration,
    /// The launch's number for CUPTI.
    pub(super) number: u32,
}

impl Operation {
    /// The device of a kernel, which is that of its module.
    pub(super) fn device(&self) -> Option<usize> {
        match self {
            Operation::Kernel(kernel) => Some(kernel.function.device()),
            _ => None,
        }
    }

    /// The ranges of a copy or of a memset.
    fn spans(&self) -> Vec<Span> {
        match self {
            Operation::Copy(copy) => vec![copy.from, copy.to],
            Operation::Set(set) | Operation::Write(set) => vec![set.to],
            Operation::Rows(rows) => rows.1.iter().flat_map(Operation::spans).collect(),
            _ => Vec::new(),
        }
    }

    /// Address and id of the allocations that it is known to use.
    pub(super) fn memory(&self) -> Vec<(usize, usize)> {
        match self {
            Operation::Kernel(kernel) => kernel.memory.clone(),
            _ => {
                let spans = self.spans();
                let used = spans.iter().filter(|span| span.bytes > 0);
                used.filter_map(|span| Some((span.address, span.allocation?)))
                    .collect()
            }
        }
    }
}

impl State {
    /// Adds an operation to its stream: as a node if the stream is capturing, otherwise as work, which costs the host `time`. Returns the
    /// end of the work.
    pub(super) fn submit(
        &mut self,
        core: &Arc<Core>,
        stream: &Arc<Stream>,
        operation: Operation,
        time: Duration,
    ) -> Result<Option<Arc<Completion>>, Code> {
        if self.graphs.is_capturing(stream)? {
            self.now += self.machine.cost.graph_capture_node;
            self.graphs.add_node(stream, operation);
            return Ok(None);
        }
        self.now += time;
        let number = match operation {
            Operation::Kernel(_) => self.records.activity.launched(),
            _ => 0,
        };
        let kernel = self.machine.cost.kernel;
        let is_kernel = matches!(operation, Operation::Kernel(_));
        let place = (stream.device, stream.handle);
        let work = self.work_of(core, place, operation, &Pricing { kernel, number });
        Ok(Some(self.enqueue_work(stream, Vec::new(), is_kernel, work)))
    }

    /// Enqueues or captures a call of a host function.
    pub(crate) fn call_host(
        &mut self,
        core: &Arc<Core>,
        stream: &Arc<Stream>,
        function: HostWork,
    ) -> Result<(), Code> {
        let operation = Operation::Host(function);
        self.submit(core, stream, operation, self.machine.cost.enqueue)
            .map(drop)
    }

    /// Adds the work of an operation to a stream.
    pub(super) fn enqueue_work(
        &mut self,
        stream: &Arc<Stream>,
        after: Vec<Arc<Completion>>,
        is_kernel: bool,
        work: Work,
    ) -> Arc<Completion> {
        match is_kernel {
            true => self.streams.enqueue_kernel(self.now, stream, after, work),
            false => self.streams.enqueue(self.now, stream, after, work),
        }
    }

    /// The work of an operation on a device, on the stream with this handle.
    pub(super) fn work_of(
        &mut self,
        core: &Arc<Core>,
        (device, stream): (usize, usize),
        operation: Operation,
        pricing: &Pricing,
    ) -> Work {
        for span in operation.spans() {
            self.memory.check_enqueued(&span);
        }
        let (core, number) = (core.clone(), self.handles.fresh());
        let kernel = pricing.kernel;
        match operation {
            Operation::Kernel(launch) => {
                let place = (device, stream);
                let launch = self.enqueued_kernel(place, launch, pricing.number, kernel);
                Box::new(move |start| launch.run(&core, start))
            }
            Operation::Copy(copy) => Box::new(move |start| copy.run(&core, device, number, start)),
            Operation::Set(set) => {
                Box::new(move |start| set.run(&core, device, number, start, kernel))
            }
            Operation::Write(set) => Box::new(move |start| set.publish(&core, number, start)),
            Operation::Host(function) => Box::new(move |start| {
                core.context
                    .leave_to_host(|| forbid_calls(|| (function.run)()));
                start
            }),
            Operation::Allocate(memory) => Box::new(move |start| {
                core.state.lock().fill_fresh(&memory);
                start
            }),
            Operation::Conditional(conditional) => {
                let number = pricing.number;
                Box::new(move |start| {
                    conditional.run(&core, stream, &Pricing { kernel, number }, start)
                })
            }
            Operation::Rows(rows) => {
                let place = (device, stream);
                let rows = rows.1.iter().cloned();
                let works = rows.map(|row| self.work_of(&core, place, row, pricing));
                let works: Vec<Work> = works.collect();
                Box::new(move |start| works.into_iter().fold(start, |at, work| work(at)))
            }
            Operation::Record(_)
            | Operation::Wait(_)
            | Operation::Free(_)
            | Operation::Child(_)
            | Operation::Empty => Box::new(|start| start),
        }
    }
}
