//! Modules and launches.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::access::Launch;
use super::allocation::{Allocation, Attach};
use super::core::Core;
use super::foreign::{contain, event, forbid_calls};
use super::module::{Function, LaunchShape, Module, Pending};
use super::page::Processor;
use super::state::{Machine, State};
use super::status::Code;
use super::stream::{Completion, Stream};
use crate::kernel::{self, LaunchContext, Registered, end_child};
use crate::misuse::Misuse;
use crate::ptx;
use cuda_um_cost::at_rate;

impl State {
    /// Loads PTX text, as far as the played driver and device can.
    pub(crate) fn load_module(
        &mut self,
        machine: &Machine,
        device: usize,
        text: &str,
    ) -> Result<usize, Code> {
        let ptx = ptx::parse(text).map_err(|error| {
            event(move || tracing::warn!(%error, "module refused"));
            // The driver takes text for PTX by its first directive.
            match text.contains(".version") {
                true => Code::INVALID_PTX,
                false => Code::INVALID_KERNEL_IMAGE,
            }
        })?;
        if ptx.version > machine.cuda.ptx_isa() {
            let (isa, newest) = (ptx.version, machine.cuda.ptx_isa());
            event(move || tracing::warn!(?isa, ?newest, "module refused: its PTX ISA is too new"));
            return Err(Code::UNSUPPORTED_PTX_VERSION);
        }
        let (major, minor) = machine.profile.compute_capability;
        if ptx.target > major * 10 + minor {
            let (target, device) = (ptx.target, major * 10 + minor);
            event(move || {
                tracing::warn!(
                    target = target,
                    device,
                    "module refused: made for a newer device"
                )
            });
            return Err(Code::NO_KERNEL_IMAGE_FOR_DEVICE);
        }
        let handle = self.handle();
        self.modules.insert(
            handle,
            Arc::new(Module {
                device,
                ptx,
                functions: parking_lot::Mutex::default(),
                launches: AtomicUsize::new(0),
            }),
        );
        Ok(handle)
    }

    /// `cuModuleUnload`. CUDA promises no wait for the module's kernels: a launch that has not ended is a misuse, and runs on here.
    pub(crate) fn unload_module(&mut self, handle: usize) -> Result<(), Code> {
        let module = self
            .modules
            .remove(&handle)
            .ok_or(Code::INVALID_RESOURCE_HANDLE)?;
        let launches = module.launches.load(Ordering::Acquire);
        if launches > 0 {
            self.misuse.push(Misuse::ModuleUnloadedInUse { launches });
        }
        for function in module.functions.lock().iter() {
            self.functions.remove(function);
        }
        Ok(())
    }

    /// A kernel by name; one without a CPU reference cannot run here and is refused.
    pub(crate) fn module_function(
        &mut self,
        machine: &Machine,
        handle: usize,
        name: &str,
    ) -> Result<usize, Code> {
        let module = self
            .modules
            .get(&handle)
            .cloned()
            .ok_or(Code::INVALID_RESOURCE_HANDLE)?;
        let entry = module
            .ptx
            .entries
            .iter()
            .find(|entry| entry.name == name)
            .ok_or(Code::SYMBOL_NOT_FOUND)?;
        let own = machine.references.get(name).copied().map(Registered::One);
        let kernel = name.to_owned();
        let reference = match own.or_else(|| kernel::registered(name)) {
            Some(Registered::One(reference)) => reference,
            Some(Registered::Several) => {
                let text =
                    "several references are registered for this kernel: see `register_kernel`";
                event(move || tracing::error!(kernel, "{text}"));
                let kernel = name.to_owned();
                self.misuse.push(Misuse::AmbiguousReference { kernel });
                return Err(Code::NOT_SUPPORTED);
            }
            None => {
                let text = "no reference is registered for this kernel: see `register_kernel`";
                event(move || tracing::error!(kernel, "{text}"));
                let kernel = name.to_owned();
                self.misuse.push(Misuse::NoTwin { kernel });
                return Err(Code::NOT_SUPPORTED);
            }
        };
        let function = self.handle();
        module.functions.lock().push(function);
        let default = machine.profile.shared_bytes_per_block;
        let dynamic_shared = parking_lot::Mutex::new(default.saturating_sub(entry.shared_bytes));
        self.functions.insert(
            function,
            Arc::new(Function {
                ptx_target: module.ptx.target,
                entry: entry.clone(),
                module,
                reference,
                dynamic_shared,
            }),
        );
        Ok(function)
    }

    /// Checks and enqueues a launch; `parameters` holds the bytes of each argument.
    pub(crate) fn launch(
        &mut self,
        core: &Arc<Core>,
        stream: &Arc<Stream>,
        function: &Arc<Function>,
        shape: LaunchShape,
        parameters: Vec<Vec<u8>>,
    ) -> Result<Arc<Completion>, Code> {
        let machine = &core.machine;
        if function.module.device != stream.device {
            return Err(Code::INVALID_RESOURCE_HANDLE);
        }
        check_shape(function, shape)?;
        self.now += machine.cost.launch;
        if !machine.concurrent {
            self.claim_managed(machine, stream);
        }
        let (function, device) = (function.clone(), stream.device);
        let launch = Launch {
            device,
            stream: stream.handle,
            enqueued: self.handle(),
            now: Duration::ZERO,
        };
        let number = self.activity.launched();
        let pending = Pending::of(&function.module);
        let work = Box::new(move |core: &Arc<Core>, start: Duration| {
            let _pending = pending;
            let launch = Launch {
                now: start,
                ..launch
            };
            let mut context = LaunchContext::new(core, launch, shape, parameters);
            let result = contain(|| forbid_calls(|| (function.reference)(&mut context)));
            if core.is_inherited() {
                end_child();
            }
            let memory = core.machine.cost.kernel
                + at_rate(context.local_bytes(), core.machine.cost.kernel_rate)
                + core.machine.over_link(context.remote_bytes());
            let cost = context.cost() + memory.max(context.least());
            // An access that was refused is the kernel's fault, whatever the reference made of the error.
            let fault = match (context.refused(), result) {
                (Some(error), _) | (None, Some(Err(error))) => {
                    Some((error.code(), error.to_string()))
                }
                (None, Some(Ok(()))) => None,
                (None, None) => Some((Code::LAUNCH_FAILURE, "its reference panicked".to_owned())),
            };
            let mut state = core.state.lock();
            state.counters.kernels += 1;
            state.end_touches(launch.enqueued);
            if let Some((code, text)) = fault {
                let (kernel, error) = (function.entry.name.clone(), text.clone());
                event(move || tracing::error!(kernel, error, "simulated kernel failed"));
                let kernel = function.entry.name.clone();
                state.misuse.push(Misuse::KernelFault { kernel, text });
                state.poison(code);
            }
            let origin = (device, launch.stream, number);
            let name = &function.entry.name;
            state.activity.kernel(name, origin, start, start + cost);
            let device = &mut state.devices[device];
            device.end = device.end.max(start + cost);
            start + cost
        });
        let done = self.enqueue(core, stream, Vec::new(), work);
        if !machine.concurrent {
            self.launched.entry(stream.handle).or_default().kernel = done.seq;
        }
        Ok(done)
    }

    /// Without page faults, a launch takes every managed allocation that its stream may use along, whole.
    fn claim_managed(&mut self, machine: &Machine, stream: &Stream) {
        let visible =
            |allocation: &Allocation| match allocation.managed().map(|managed| managed.attach) {
                Some(Attach::Global) => true,
                Some(Attach::Single(only)) => only == stream.handle,
                Some(Attach::Host) | None => false,
            };
        let bases: Vec<usize> = self
            .allocations
            .values()
            .filter(|allocation| visible(allocation))
            .map(|allocation| allocation.base)
            .collect();
        let before = self.counters.bytes_to_device;
        self.activity.now = self.now;
        for base in bases {
            let count = self.managed(base).map_or(0, |(_, count)| count);
            self.touch(
                machine,
                Processor::device(stream.device),
                base,
                0..count,
                true,
            );
        }
        let moved = self.counters.bytes_to_device - before;
        self.now += at_rate(moved, machine.cost.pinned_rate);
    }

    /// Whether the host may touch a managed allocation now, on devices without page faults: every kernel that may use
    /// it must have been seen to complete.
    pub(crate) fn kernel_in_flight(&self, attach: Attach) -> bool {
        self.launched.iter().any(|(stream, launched)| {
            let may_use = match attach {
                Attach::Global => true,
                Attach::Single(only) => only == *stream,
                Attach::Host => false,
            };
            may_use && launched.kernel > launched.observed
        })
    }
}

impl Machine {
    /// What a kernel takes longer that reads or writes so many bytes over the link.
    pub(crate) fn over_link(&self, bytes: u64) -> Duration {
        match bytes {
            0 => Duration::ZERO,
            _ => self.cost.remote + at_rate(bytes, self.cost.remote_rate),
        }
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
    if function
        .entry
        .max_threads
        .is_some_and(|max| threads > u64::from(max))
    {
        return Err(Code::INVALID_VALUE);
    }
    if shared_bytes > *function.dynamic_shared.lock() {
        return Err(Code::INVALID_VALUE);
    }
    Ok(())
}
