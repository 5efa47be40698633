//! Launches of kernels.

use std::sync::Arc;
use std::time::Duration;

use cuda_um_ptx as machine;
use cuda_um_ptx::{Extent, Failure, FindingKind, Report};

use super::access::Accesses;
use super::core::Core;
use super::foreign::{contain_with_text, event};
use super::kernel_launch::{Launch, LaunchShape, Parameter};
use super::managed::{Attach, Managed, Processor};
use super::module::{Function, Pending};
use super::operation::Operation;
use super::state::State;
use super::status::Code;
use super::stream::Stream;
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
    /// The memory of the grid's barrier, if the launch is cooperative.
    workspace: usize,
    _pending: Pending,
}

impl Enqueued {
    /// Runs the kernel; returns its end.
    pub(super) fn run(self, core: &Core, start: Duration) -> Duration {
        let launch = Launch {
            now: start,
            ..self.launch
        };
        let Kernel {
            function, shape, ..
        } = &self.kernel;
        let (machine, name) = (&core.machine, function.program.name());
        let accesses = Accesses::new(core, launch);
        let threads = |sizes: [u32; 3]| sizes.iter().map(|size| u64::from(*size)).product::<u64>();
        let (blocks, block) = (threads(shape.grid), threads(shape.block));
        let extents = self.kernel.extents(&core.state.lock());
        let ran = contain_with_text(|| {
            let launch = machine::Launch {
                grid: shape.grid,
                block: shape.block,
                shared_bytes: shape.shared_bytes as usize,
                parameters: &self.kernel.packed_parameters(),
                variables: &function.globals().addresses,
                extents: &extents,
                // Few threads are done before others have begun.
                threads: usize::from(blocks * block < MANY_THREADS),
                seed: machine.seed,
                cooperative: shape.cooperative,
                workspace: self.workspace as u64,
                instructions: machine.instructions,
                checks: machine.checks,
                processors: machine.profile.multiprocessors,
                ..machine::Launch::default()
            };
            function.program.run(&launch, &accesses)
        });
        let (report, failure) = match ran {
            Ok(Ok(report)) => (report, None),
            Ok(Err(failure)) => (
                Report::default(),
                Some((code(&failure), failure.to_string())),
            ),
            Err(panic) => {
                let text = format!("kernel `{name}`: the simulator failed: {panic}");
                (Report::default(), Some((Code::LAUNCH_FAILURE, text)))
            }
        };

        let mut state = core.state.lock();
        let touches = accesses.serve(&mut state);
        let bytes = report.global.read + report.global.written;
        let [read, written] = touches.remote_bytes;
        // The link carries both directions at the same time.
        let memory = self.least
            + at_rate(
                bytes.saturating_sub(touches.elsewhere),
                machine.cost.kernel_rate,
            )
            + machine.over_link(read.max(written));
        let computing = machine.computing(report.instructions, blocks * block.div_ceil(32));
        let end = start + touches.time + memory.max(computing);
        state.memory.end_use(launch.number);
        if let Some((code, text)) = failure {
            let error = text.clone();
            event(move || tracing::error!(error, "simulated kernel failed"));
            state.context.fault(code, &text);
            let kernel = name.to_owned();
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

/// Launches of fewer threads run on one thread of this machine.
const MANY_THREADS: u64 = 1 << 14;

/// CUDA's code of a failure.
fn code(failure: &Failure) -> Code {
    let Failure::Finding(finding) = failure else {
        return Code::LAUNCH_TIMEOUT;
    };
    match finding.kind {
        FindingKind::Misaligned => Code::MISALIGNED_ADDRESS,
        FindingKind::Assert => Code::ASSERT,
        FindingKind::Deadlock => Code::LAUNCH_TIMEOUT,
        FindingKind::Trap | FindingKind::Unwritten | FindingKind::Race | FindingKind::Barrier => {
            Code::LAUNCH_FAILURE
        }
        _ => Code::ILLEGAL_ADDRESS,
    }
}

impl Kernel {
    /// The parameters, each at its offset.
    fn packed_parameters(&self) -> Vec<u8> {
        let mut packed = Vec::new();
        let places = self.function.program.parameters().iter();
        for (parameter, place) in self.parameters.iter().zip(places) {
            packed.resize(place.offset, 0);
            packed.extend_from_slice(&parameter.bytes);
        }
        packed
    }

    /// The memory that the caller of the launch declared for arguments. An argument that may be an address, and was not declared, extends
    /// to what is left of its allocation.
    fn extents(&self, state: &State) -> Vec<Extent> {
        let parameters = self.parameters.iter().enumerate();
        let addresses = parameters.filter_map(|(index, parameter)| {
            let address = u64::from_ne_bytes(parameter.bytes.as_slice().try_into().ok()?);
            Some((index, address, parameter.memory))
        });
        let (declared, others): (Vec<_>, Vec<_>) =
            addresses.partition(|(.., memory)| memory.is_some());
        let declared = declared
            .into_iter()
            .filter_map(|(parameter, base, memory)| {
                let memory = memory?;
                Some(Extent {
                    base,
                    bytes: memory.bytes as u64,
                    writable: memory.may_write,
                    parameter,
                })
            });
        let mut extents: Vec<_> = declared.collect();
        let end = |extent: &Extent| extent.base.saturating_add(extent.bytes);
        let mut taken: Vec<_> = extents
            .iter()
            .map(|extent| extent.base..end(extent))
            .collect();
        taken.sort_by_key(|range| range.start);
        for (parameter, address, _) in others {
            let Some(whole) = state.memory.extent(address as usize) else {
                continue;
            };
            let (mut at, end) = (whole.start as u64, whole.end as u64);
            for range in taken.iter().chain([&(end..end)]) {
                if range.start.min(end) > at {
                    extents.push(Extent {
                        base: at,
                        bytes: range.start.min(end) - at,
                        writable: true,
                        parameter,
                    });
                }
                at = at.max(range.end).min(end);
            }
        }
        extents
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
        let workspace = match kernel.shape.cooperative {
            true => self.workspace(device, stream).unwrap_or(0),
            false => 0,
        };
        Enqueued {
            workspace,
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
        ..
    } = shape;
    let threads = block.iter().map(|dim| u64::from(*dim)).product::<u64>();
    let grid_fits = grid[0] <= i32::MAX as u32 && grid[1] <= 65_535 && grid[2] <= 65_535;
    let block_fits = block[0] <= 1024 && block[1] <= 1024 && block[2] <= 64 && threads <= 1024;
    if grid.contains(&0) || block.contains(&0) || !grid_fits || !block_fits {
        return Err(Code::INVALID_VALUE);
    }
    let most = function.program.max_threads();
    if most.is_some_and(|most| threads > u64::from(most)) {
        return Err(Code::INVALID_VALUE);
    }
    if shared_bytes > *function.dynamic_shared.lock() {
        return Err(Code::INVALID_VALUE);
    }
    Ok(())
}
