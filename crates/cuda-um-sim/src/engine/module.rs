//! Modules and their kernels.

use std::collections::HashMap;
use std::ffi::CString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use cuda_um_ptx::{Device, LoadError, Module as Ptx, ParseError, Program};
use cuda_um_sys::locks::Mutex;

use super::detail::detailed;
use super::foreign::event;
use super::globals::Globals;
use super::handle::Handles;
use super::image::ptx_of;
use super::machine::Machine;
use super::misuse_log::MisuseLog;
use super::status::Code;
use crate::misuse::Misuse;

/// A module's PTX, decoded for a device.
pub(crate) struct Image {
    /// The virtual architecture that the PTX names: 50 for `sm_50`.
    target: u32,
    /// The kernels by name, and why the others cannot run.
    kernels: HashMap<String, Result<Arc<Program>, LoadError>>,
    pub(super) ptx: Ptx,
}

/// A loaded module.
struct Module {
    handle: usize,
    device: usize,
    image: Image,
    globals: Globals,
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

/// A kernel of a module.
pub(crate) struct Function {
    module: Arc<Module>,
    pub(crate) program: Arc<Program>,
    c_name: CString,
    /// The most dynamic shared memory of a launch.
    pub(crate) dynamic_shared: Mutex<u32>,
}

impl Function {
    /// The device of its module: it runs only on streams of this device.
    pub(crate) fn device(&self) -> usize {
        self.module.device
    }

    /// The virtual architecture that its PTX names: 50 for `sm_50`.
    pub(crate) fn ptx_target(&self) -> u32 {
        self.module.image.target
    }

    /// The variables of its module.
    pub(super) fn globals(&self) -> &Globals {
        &self.module.globals
    }

    /// The size of each parameter in bytes.
    pub(crate) fn parameter_sizes(&self) -> Vec<usize> {
        let parameters = self.program.parameters().iter();
        parameters.map(|parameter| parameter.bytes).collect()
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

    /// Adds a module that is for this device.
    pub(super) fn add(&mut self, device: usize, image: Image, globals: Globals) -> usize {
        let handle = self.handles.fresh();
        let module = Module {
            handle,
            device,
            image,
            globals,
            functions: Mutex::default(),
            launches: AtomicUsize::new(0),
            is_unloaded: AtomicBool::new(false),
        };
        self.modules.insert(handle, Arc::new(module));
        handle
    }

    /// Returns the memory of its variables, 0 for none. CUDA does not promise to wait for the module's kernels: a launch that has not ended is a misuse, and still runs
    /// here.
    pub(super) fn unload(&mut self, handle: usize) -> Result<usize, Code> {
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
        Ok(module.globals.base)
    }

    /// The modules of a device.
    pub(super) fn of_device(&self, device: usize) -> Vec<usize> {
        let modules = self.modules.iter();
        let modules = modules.filter(|(_, module)| module.device == device);
        modules.map(|(handle, _)| *handle).collect()
    }

    /// The address and the size of a variable.
    pub(crate) fn variable(&self, handle: usize, name: &str) -> Result<(usize, usize), Code> {
        let module = self
            .modules
            .get(&handle)
            .ok_or(Code::INVALID_RESOURCE_HANDLE)?;
        module.globals.find(name).ok_or(Code::SYMBOL_NOT_FOUND)
    }

    /// Looks a kernel up by name; refuses one that cannot run here.
    pub(crate) fn look_up(&mut self, handle: usize, name: &str) -> Result<usize, Code> {
        let module = self
            .modules
            .get(&handle)
            .cloned()
            .ok_or(Code::INVALID_RESOURCE_HANDLE)?;
        let kernel = module.image.kernels.get(name);
        let program = match kernel.ok_or(Code::SYMBOL_NOT_FOUND)? {
            Ok(program) => program.clone(),
            Err(why) => {
                let error = format!("the simulator cannot run the kernel `{name}`: {why}");
                let text = error.clone();
                event(move || tracing::error!("{text}"));
                return Err(detailed(Code::NO_KERNEL_IMAGE_FOR_DEVICE, error));
            }
        };
        let handle = self.handles.fresh();
        module.functions.lock().push(handle);
        let default = self.machine.profile.shared_bytes_per_block;
        let dynamic_shared = Mutex::new(default.saturating_sub(program.shared_bytes() as u32));
        let function = Function {
            program,
            c_name: CString::new(name).map_err(|_| Code::SYMBOL_NOT_FOUND)?,
            module,
            dynamic_shared,
        };
        self.functions.insert(handle, Arc::new(function));
        Ok(handle)
    }

    /// The handle of a kernel that was looked up.
    pub(super) fn handle_of(&self, function: &Arc<Function>) -> Result<usize, Code> {
        let mut functions = self.functions.iter();
        let found = functions.find(|(_, it)| Arc::ptr_eq(it, function));
        let handle = found.map(|(handle, _)| *handle);
        handle.ok_or(Code::INVALID_RESOURCE_HANDLE)
    }

    /// A kernel that was looked up.
    pub(crate) fn function(&self, handle: usize) -> Result<&Arc<Function>, Code> {
        self.functions
            .get(&handle)
            .ok_or(Code::INVALID_RESOURCE_HANDLE)
    }
}

impl Image {
    /// Decodes an image, if the simulated driver and device can.
    pub(crate) fn load(machine: &Machine, image: &[u8]) -> Result<Image, Code> {
        let compute = machine.profile.compute_capability;
        let driver = machine.cuda.number() as u32;
        let device = Device {
            compute,
            driver: (driver / 1000, driver % 1000 / 10),
        };
        let text = ptx_of(image, compute.0 * 10 + compute.1)?;
        let ptx = Ptx::parse(&text).map_err(|error| refused(&text, &error))?;
        ptx.check(&device).map_err(unfit)?;
        let mut kernels = HashMap::new();
        for kernel in ptx.kernels() {
            let program = match kernel.load(&device) {
                Err(error @ LoadError::Unsupported { .. }) => Err(error),
                program => Ok(Arc::new(program.map_err(unfit)?)),
            };
            kernels.insert(kernel.name().to_owned(), program);
        }
        let digits = ptx
            .target()
            .trim_matches(|letter: char| !letter.is_ascii_digit());
        Ok(Image {
            target: digits.parse().unwrap_or(0),
            kernels,
            ptx,
        })
    }
}

/// The error for text that is not PTX.
fn refused(text: &str, error: &ParseError) -> Code {
    let ParseError {
        line,
        found,
        expected,
    } = error;
    let log = format!(
        "ptxas application ptx input, line {line}; fatal   : Parsing error near '{found}': expected {expected}"
    );
    let error = error.to_string();
    event(move || tracing::warn!(%error, "module refused"));
    // The driver recognises PTX by its first directive.
    match text.contains(".version") {
        true => detailed(Code::INVALID_PTX, log),
        false => Code::INVALID_KERNEL_IMAGE,
    }
}

/// The error for PTX that the driver does not compile for the device.
fn unfit(error: LoadError) -> Code {
    let text = error.to_string();
    event(move || tracing::warn!(error = text, "module refused"));
    match error {
        LoadError::Version { module, driver } => detailed(
            Code::UNSUPPORTED_PTX_VERSION,
            format!(
                "ptxas fatal   : Unsupported .version {}.{}; current version is '{}.{}'",
                module.0, module.1, driver.0, driver.1
            ),
        ),
        LoadError::Target { .. } => Code::NO_KERNEL_IMAGE_FOR_DEVICE,
        LoadError::Invalid { line, text, what } => detailed(
            Code::INVALID_PTX,
            format!("ptxas application ptx input, line {line}; error   : {what}: `{text}`"),
        ),
        error => detailed(Code::INVALID_PTX, format!("ptxas fatal   : {error}")),
    }
}
