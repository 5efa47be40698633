//! Launches of kernels.

use std::sync::Arc;
use std::time::Duration;

use super::core::Core;
use super::foreign::{contain_with_text, event, forbid_calls};
use super::kernel_memory::{Launch, LaunchShape, Parameter};
use super::managed::{Attach, Managed, Processor};
use super::module::{Function, Pending};
use super::operation::Operation;
use super::state::State;
use super::status::Code;
use super::stream::Stream;
use crate::kernel::{LaunchContext, ReferenceError, end_child};
use crate::misuse::Misuse;
use cuda_um_cost::at_rate;

/// A launch that was checked.
#[derive(Clone)]
pub(super) struct Kernel {
    pub(super) function: Arc<Function>,
    pub(super) shape: LaunchShape,
    pub(super) parameters: Vec<Parameter>,
    /// Address and id of the allocations that the caller declared.
    pub(super) memory: Vec<(usize, usize)>,
}

/// A launch that was enqueued.
pub(super) struct Enqueued {
    kernel: Kernel,
    launch: Launch,
    /// The launch's number for CUPTI.
    number: u32,
    /// The time of a kernel that accesses no memory.
    least: Duration,
    _pending: Pending,
}

/// The failure of a kernel.
struct Failure {
    code: Code,
    text: String,
}

impl Enqueued {
    /// Runs the kernel's reference; returns the end of the kernel.
    pub(super) fn run(self, core: &Core, start: Duration) -> Duration {
        let launch = Launch {
            now: start,
            ..self.launch
        };
        let Kernel {
            function,
            shape,
            parameters,
            ..
        } = self.kernel;
        let name = &function.entry.name;
        let mut context = LaunchContext::new(name, core, launch, shape, parameters);
        let result = contain_with_text(|| forbid_calls(|| (function.reference)(&mut context)));
        if core.is_inherited() {
            end_child();
        }
        let cost = &core.machine.cost;
        let memory = self.least
            + at_rate(context.local_bytes(), cost.kernel_rate)
            + core.machine.over_link(context.remote_bytes());
        let end = start + context.fault_time() + memory.max(context.least());
        let failure = Failure::of(context.refused(), result);

        let mut state = core.state.lock();
        state.memory.end_use(launch.number);
        if let Some(Failure { code, text }) = failure {
            let (kernel, error) = (name.clone(), text.clone());
            event(move || tracing::error!(kernel, error, "simulated kernel failed"));
            state
                .context
                .fault(code, &format!("kernel `{name}`: {text}"));
            let kernel = name.clone();
            state.misuse.report(Misuse::KernelFault { kernel, text });
        }
        state.records.counters.kernels += 1;
        let origin = (launch.device, launch.stream, self.number);
        let activity = &mut state.records.activity;
        activity.kernel(name, origin, start, end);
        state.devices[launch.device].worked_until(end);
        end
    }
}

impl Failure {
    /// The failure of a kernel, from the first access that was refused and the result of its reference: the message if it panicked. A refused
    /// access is a fault of the kernel, even if the reference ignored the error.
    fn of(
        refused: Option<ReferenceError>,
        result: Result<Result<(), ReferenceError>, String>,
    ) -> Option<Failure> {
        match (refused, result) {
            (Some(error), _) | (None, Ok(Err(error))) => Some(Failure {
                code: error.code(),
                text: error.to_string(),
            }),
            (None, Ok(Ok(()))) => None,
            (None, Err(message)) => Some(Failure {
                code: Code::LAUNCH_FAILURE,
                text: format!("its CPU reference panicked: {message}"),
            }),
        }
    }
}

impl State {
    /// Checks a launch.
    pub(super) fn check_launch(
        &self,
        device: usize,
        function: &Arc<Function>,
        shape: LaunchShape,
        parameters: Vec<Parameter>,
    ) -> Result<Kernel, Code> {
        if function.device() != device {
            return Err(Code::INVALID_RESOURCE_HANDLE);
        }
        check_shape(function, shape)?;
        let memory = parameters.iter().filter_map(|parameter| {
            parameter.memory.filter(|declared| declared.bytes > 0)?;
            let address = usize::from_ne_bytes(parameter.bytes.as_slice().try_into().ok()?);
            Some((address, self.memory.holding(address)?.id))
        });
        Ok(Kernel {
            memory: memory.collect(),
            function: function.clone(),
            shape,
            parameters,
        })
    }

    /// Checks a launch, and enqueues or captures it.
    pub(crate) fn launch(
        &mut self,
        core: &Arc<Core>,
        stream: &Arc<Stream>,
        function: &Arc<Function>,
        shape: LaunchShape,
        parameters: Vec<Parameter>,
    ) -> Result<(), Code> {
        let kernel = self.check_launch(stream.device, function, shape, parameters)?;
        let operation = Operation::Kernel(kernel);
        self.submit(core, stream, operation, self.machine.cost.launch)
            .map(drop)
    }

    /// The launch on a device, on the stream with this handle. The kernel lasts at least `least`.
    pub(super) fn enqueued_kernel(
        &mut self,
        (device, stream): (usize, usize),
        kernel: Kernel,
        number: u32,
        least: Duration,
    ) -> Enqueued {
        if !self.machine.concurrent {
            self.claim_managed(device, stream);
        }
        Enqueued {
            launch: Launch {
                device,
                stream,
                number: self.handles.fresh(),
                now: Duration::ZERO,
            },
            number,
            least,
            _pending: kernel.function.pending(),
            kernel,
        }
    }

    /// Without page faults, a launch moves every managed allocation that its stream may use to the device, whole.
    fn claim_managed(&mut self, device: usize, stream: usize) {
        let visible = |managed: &Managed| match managed.attach {
            Attach::Global => true,
            Attach::Single(only) => only == stream,
            Attach::Host => false,
        };
        let claimed: Vec<_> = self
            .managed
            .iter()
            .filter(|(_, managed)| visible(managed))
            .map(|(base, managed)| (base, managed.count))
            .collect();
        let before = self.records.counters.bytes_to_device;
        self.records.activity.now = self.now;
        for (base, count) in claimed {
            let processor = Processor::device(device);
            self.uvm().touch(processor, base, 0..count, true);
        }
        let moved = self.records.counters.bytes_to_device - before;
        self.now += at_rate(moved, self.machine.cost.pinned_rate);
    }
}

fn check_shape(function: &Function, shape: LaunchShape) -> Result<(), Code> {
    let LaunchShape {
        grid,
        block,
        shared_bytes,
    } = shape;
    let threads = block.iter().map(|dim| u64::from(*dim)).product::<u64>();
    let grid_fits = grid[0] <= i32::MAX as u32 && grid[1] <= 65_535 && grid[2] <= 65_535;
    let block_fits = block[0] <= 1024 && block[1] <= 1024 && block[2] <= 64 && threads <= 1024;
    if grid.contains(&0) || block.contains(&0) || !grid_fits || !block_fits {
        return Err(Code::INVALID_VALUE);
    }
    let most = function.entry.max_threads;
    if most.is_some_and(|most| threads > u64::from(most)) {
        return Err(Code::INVALID_VALUE);
    }
    if shared_bytes > *function.dynamic_shared.lock() {
        return Err(Code::INVALID_VALUE);
    }
    Ok(())
}
