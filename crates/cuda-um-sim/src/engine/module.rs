//! Modules and their kernels.

use std::collections::HashMap;
use std::ffi::CString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use cuda_um_sys::locks::Mutex;

use super::detail::detailed;
use super::foreign::event;
use super::handle::Handles;
use super::machine::Machine;
use super::misuse_log::MisuseLog;
use super::status::Code;
use crate::kernel::{self, CpuReference, Registered};
use crate::misuse::Misuse;
use cuda_um_sys::ptx::{self, Entry, Ptx};

/// A loaded module.
#[derive(Debug)]
struct Module {
    handle: usize,
    device: usize,
    /// The text, by which a kernel finds the reference that is registered for its module.
    text: String,
    ptx: Ptx,
    functions: Mutex<Vec<usize>>,
    /// Launches of its kernels that have not ended.
    launches: AtomicUsize,
    is_unloaded: AtomicBool,
}

/// A launch that has not ended: counted from when it is enqueued until its kernel has run or was skipped.
pub(super) struct Pending(Arc<Module>);

impl Drop for Pending {
    fn drop(&mut self) {
        self.0.launches.fetch_sub(1, Ordering::Release);
    }
}

/// A kernel of a module, with its CPU reference.
pub(crate) struct Function {
    module: Arc<Module>,
    pub(crate) entry: Entry,
    c_name: CString,
    /// The virtual architecture that the PTX names: 50 for `sm_50`.
    pub(crate) ptx_target: u32,
    pub(crate) reference: CpuReference,
    /// The most dynamic shared memory of a launch.
    pub(crate) dynamic_shared: Mutex<u32>,
}

impl Function {
    /// The device of its module: it runs only on streams of this device.
    pub(crate) fn device(&self) -> usize {
        self.module.device
    }

    /// The handle of its module.
    pub(crate) fn module(&self) -> usize {
        self.module.handle
    }

    /// The address of its name for C, which lives as long as the kernel.
    pub(crate) fn c_name(&self) -> usize {
        self.c_name.as_ptr() as usize
    }

    /// Whether its module was unloaded; a graph may still have the kernel.
    pub(super) fn is_unloaded(&self) -> bool {
        // Relaxed: the state's lock orders it.
        self.module.is_unloaded.load(Ordering::Relaxed)
    }

    /// Counts a launch until the result is dropped.
    pub(super) fn pending(&self) -> Pending {
        // Relaxed: the stream's queue orders it before the drop, and `unload` only reports what it finds.
        self.module.launches.fetch_add(1, Ordering::Relaxed);
        Pending(self.module.clone())
    }
}

/// All modules of one simulator, and the kernels that were looked up in them.
pub(crate) struct Modules {
    machine: Arc<Machine>,
    handles: Handles,
    misuse: MisuseLog,
    modules: HashMap<usize, Arc<Module>>,
    functions: HashMap<usize, Arc<Function>>,
}

impl Modules {
    pub(crate) fn new(machine: Arc<Machine>, handles: Handles, misuse: MisuseLog) -> Modules {
        Modules {
            machine,
            handles,
            misuse,
            modules: HashMap::new(),
            functions: HashMap::new(),
        }
    }

    /// The number of modules that are loaded.
    pub(crate) fn len(&self) -> usize {
        self.modules.len()
    }

    /// Whether a module with this handle is loaded.
    pub(crate) fn has(&self, handle: usize) -> bool {
        self.modules.contains_key(&handle)
    }

    /// Loads PTX text, if the simulated driver and device can.
    pub(crate) fn load(&mut self, device: usize, text: String) -> Result<usize, Code> {
        let ptx = ptx::parse(&text).map_err(|error| {
            let log = format!("ptxas fatal   : {error}");
            event(move || tracing::warn!(%error, "module refused"));
            // The driver recognises PTX by its first directive.
            match text.contains(".version") {
                true => detailed(Code::INVALID_PTX, log),
                false => Code::INVALID_KERNEL_IMAGE,
            }
        })?;
        self.check_versions(&ptx)?;
        let handle = self.handles.fresh();
        let module = Module {
            handle,
            device,
            text,
            ptx,
            functions: Mutex::default(),
            launches: AtomicUsize::new(0),
            is_unloaded: AtomicBool::new(false),
        };
        self.modules.insert(handle, Arc::new(module));
        Ok(handle)
    }

    fn check_versions(&self, ptx: &Ptx) -> Result<(), Code> {
        let (isa, newest) = (ptx.version, self.machine.cuda.ptx_isa());
        if isa > newest {
            event(move || tracing::warn!(?isa, ?newest, "module refused: its PTX ISA is too new"));
            let log = format!(
                "ptxas fatal   : Unsupported .version {}.{}; current version is '{}.{}'",
                isa.0, isa.1, newest.0, newest.1
            );
            return Err(detailed(Code::UNSUPPORTED_PTX_VERSION, log));
        }
        let (major, minor) = self.machine.profile.compute_capability;
        let (target, device) = (ptx.target, major * 10 + minor);
        if target > device {
            let text = "module refused: made for a newer device";
            event(move || tracing::warn!(target = target, device, "{text}"));
            return Err(Code::NO_KERNEL_IMAGE_FOR_DEVICE);
        }
        Ok(())
    }

    /// `cuModuleUnload`. CUDA does not promise to wait for the module's kernels: a launch that has not ended is a misuse, and still runs
    /// here.
    pub(crate) fn unload(&mut self, handle: usize) -> Result<(), Code> {
        let module = self
            .modules
            .remove(&handle)
            .ok_or(Code::INVALID_RESOURCE_HANDLE)?;
        module.is_unloaded.store(true, Ordering::Relaxed);
        let launches = module.launches.load(Ordering::Acquire);
        if launches > 0 {
            self.misuse.report(Misuse::ModuleUnloadedInUse { launches });
        }
        for function in module.functions.lock().iter() {
            self.functions.remove(function);
        }
        Ok(())
    }

    /// Unloads the modules of a device.
    pub(super) fn unload_all(&mut self, device: usize) -> Result<(), Code> {
        let modules = self
            .modules
            .iter()
            .filter(|(_, module)| module.device == device);
        let handles: Vec<_> = modules.map(|(handle, _)| *handle).collect();
        handles
            .into_iter()
            .try_for_each(|handle| self.unload(handle))
    }

    /// Looks a kernel up by name; refuses one without a CPU reference.
    pub(crate) fn look_up(&mut self, handle: usize, name: &str) -> Result<usize, Code> {
        let module = self
            .modules
            .get(&handle)
            .cloned()
            .ok_or(Code::INVALID_RESOURCE_HANDLE)?;
        let entry = module.ptx.entries.iter().find(|entry| entry.name == name);
        let entry = entry.ok_or(Code::SYMBOL_NOT_FOUND)?;
        let reference = self.reference(&module.text, name)?;
        let handle = self.handles.fresh();
        module.functions.lock().push(handle);
        let default = self.machine.profile.shared_bytes_per_block;
        let dynamic_shared = Mutex::new(default.saturating_sub(entry.shared_bytes));
        let function = Function {
            ptx_target: module.ptx.target,
            c_name: CString::new(name).map_err(|_| Code::SYMBOL_NOT_FOUND)?,
            entry: entry.clone(),
            module,
            reference,
            dynamic_shared,
        };
        self.functions.insert(handle, Arc::new(function));
        Ok(handle)
    }

    /// The CPU reference of a kernel: this simulator's own, the one that is registered for its module, or the one for its name.
    fn reference(&self, ptx: &str, name: &str) -> Result<CpuReference, Code> {
        let own = self.machine.references.get(name).copied();
        let kernel = name.to_owned();
        let (misuse, text) = match own
            .map(Registered::One)
            .or_else(|| kernel::registered(ptx, name))
        {
            Some(Registered::One(reference)) => return Ok(reference),
            Some(Registered::Several) => (
                Misuse::AmbiguousReference { kernel },
                format!(
                    "several CPU references are registered for the kernel `{name}`: register each for its module with \
                     `register_module`, or one for this simulator with `Builder::kernel`"
                ),
            ),
            None => (
                Misuse::NoReference { kernel },
                format!(
                    "the simulator runs the CPU reference of a kernel, and none is registered for the kernel `{name}`: see \
                     `cuda_um_sim::register_kernel` (a library may have it behind a feature, such as `sim` of um-kernels; a program \
                     over the simulator's libcuda uses `cudaUmSimRegisterKernel` or `CUDA_UM_SIM_KERNELS`)"
                ),
            ),
        };
        let (kernel, error) = (name.to_owned(), text.clone());
        event(move || tracing::error!(kernel, "{error}"));
        self.misuse.report(misuse);
        // As for a kernel that was not compiled for the device.
        Err(detailed(Code::NO_KERNEL_IMAGE_FOR_DEVICE, text))
    }

    /// A kernel that was looked up.
    pub(crate) fn function(&self, handle: usize) -> Result<&Arc<Function>, Code> {
        self.functions
            .get(&handle)
            .ok_or(Code::INVALID_RESOURCE_HANDLE)
    }
}
