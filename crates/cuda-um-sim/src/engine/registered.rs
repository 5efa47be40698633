//! What programs that nvcc built register with the runtime before `main`: fat binaries, kernels and variables, by addresses of the host.

use std::collections::HashMap;

use super::handle::Handles;
use super::module::Image;
use super::state::State;
use super::status::Code;

/// A kernel or a variable: a name in a fat binary.
#[derive(Clone)]
struct Symbol {
    binary: usize,
    name: String,
}

/// What a program registered.
pub(crate) struct Registered {
    handles: Handles,
    binaries: HashMap<usize, Vec<u8>>,
    symbols: HashMap<usize, Symbol>,
    /// The modules of binaries, by device, loaded when one of their symbols is used first.
    modules: HashMap<(usize, usize), usize>,
    /// Kernels that were looked up, by device.
    functions: HashMap<(usize, usize), usize>,
}

impl Registered {
    pub(crate) fn new(handles: Handles) -> Registered {
        Registered {
            handles,
            binaries: HashMap::new(),
            symbols: HashMap::new(),
            modules: HashMap::new(),
            functions: HashMap::new(),
        }
    }

    /// Registers the image of a fat binary.
    pub(crate) fn add(&mut self, image: Vec<u8>) -> usize {
        let handle = self.handles.fresh();
        self.binaries.insert(handle, image);
        handle
    }

    pub(crate) fn remove(&mut self, binary: usize) {
        self.binaries.remove(&binary);
        self.symbols.retain(|_, symbol| symbol.binary != binary);
        self.functions.clear();
    }

    /// Registers a kernel or a variable under an address of the host.
    pub(crate) fn name(&mut self, binary: usize, address: usize, name: String) {
        self.symbols.insert(address, Symbol { binary, name });
    }

    /// Forgets the modules of a device, which was reset.
    pub(super) fn forget(&mut self, device: usize) {
        self.modules.retain(|(_, of), _| *of != device);
        self.functions.retain(|(_, of), _| *of != device);
    }
}

impl State {
    /// The module and the name of a symbol; the module is loaded if this is its first use on the device.
    fn registered_symbol(
        &mut self,
        device: usize,
        address: usize,
    ) -> Result<(usize, String), Code> {
        let Registered {
            symbols,
            modules,
            binaries,
            ..
        } = &self.registered;
        let Symbol { binary, name } = symbols.get(&address).cloned().ok_or(Code::INVALID_SYMBOL)?;
        if let Some(module) = modules.get(&(binary, device)) {
            return Ok((*module, name));
        }
        let image = binaries.get(&binary).ok_or(Code::INVALID_SYMBOL)?;
        let image = Image::load(&self.machine, image)?;
        let module = self.add_module(device, image)?;
        self.registered.modules.insert((binary, device), module);
        Ok((module, name))
    }

    /// The kernel that a program registered under an address.
    pub(crate) fn registered_kernel(
        &mut self,
        device: usize,
        address: usize,
    ) -> Result<usize, Code> {
        if let Some(function) = self.registered.functions.get(&(address, device)) {
            return Ok(*function);
        }
        let found = self.registered_symbol(device, address);
        let (module, name) = found.map_err(|code| match code {
            Code::INVALID_SYMBOL => Code::INVALID_DEVICE_FUNCTION,
            code => code,
        })?;
        let function = self.modules.look_up(module, &name)?;
        self.registered
            .functions
            .insert((address, device), function);
        Ok(function)
    }

    /// The address under which a program registered a kernel.
    pub(crate) fn registered_address(&self, function: usize) -> Result<usize, Code> {
        let mut functions = self.registered.functions.iter();
        let found = functions.find(|(_, it)| **it == function);
        found
            .map(|((address, _), _)| *address)
            .ok_or(Code::INVALID_DEVICE_FUNCTION)
    }

    /// The address and the size of the variable that a program registered under an address.
    pub(crate) fn registered_variable(
        &mut self,
        device: usize,
        address: usize,
    ) -> Result<(usize, usize), Code> {
        let (module, name) = self.registered_symbol(device, address)?;
        self.modules
            .variable(module, &name)
            .map_err(|_| Code::INVALID_SYMBOL)
    }
}
