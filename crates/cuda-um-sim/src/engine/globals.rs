//! The variables of modules, and barriers of grids: device memory that no call allocated, and no call can free.
#![allow(unsafe_code, reason = "writes the first contents of device memory")]

use cuda_um_ptx::Module;

use super::bytes::copy;
use super::memory::{Kind, Request};
use super::module::Image;
use super::state::State;
use super::status::Code;

/// The alignment of the first variable: no variable has a larger one.
const ALIGN: u64 = 256;

/// Where the variables of a module are.
#[derive(Debug, Default)]
pub(crate) struct Globals {
    /// The first address of their memory; 0 if there are none.
    pub(super) base: usize,
    /// The address of each variable, in the order of the module.
    pub(super) addresses: Vec<u64>,
    /// The name and the size of each.
    names: Vec<(String, usize)>,
}

impl Globals {
    /// The address and the size of a variable.
    pub(super) fn find(&self, name: &str) -> Option<(usize, usize)> {
        let index = self.names.iter().position(|(known, _)| known == name)?;
        Some((self.addresses[index] as usize, self.names[index].1))
    }
}

impl State {
    /// Adds a module that is for this device, and allocates its variables.
    pub(crate) fn add_module(&mut self, device: usize, image: Image) -> Result<usize, Code> {
        let globals = self.allocate_variables(device, &image.ptx)?;
        Ok(self.modules.add(device, image, globals))
    }

    fn allocate_variables(&mut self, device: usize, module: &Module) -> Result<Globals, Code> {
        let mut bytes = 0;
        let offsets = module.variables().map(|variable| {
            let offset = u64::next_multiple_of(bytes, variable.align.clamp(1, ALIGN));
            bytes = offset + variable.bytes;
            offset
        });
        let offsets: Vec<_> = offsets.collect();
        if bytes == 0 {
            return Ok(Globals {
                addresses: offsets,
                ..Globals::default()
            });
        }
        let base = self.allocate(Request {
            bytes: bytes as usize,
            kind: Kind::Device(device),
            device,
            pool: None,
            charged: true,
        })?;
        self.memory.keep(base);
        let addresses: Vec<_> = offsets.iter().map(|offset| base as u64 + offset).collect();
        for (index, address) in addresses.iter().enumerate() {
            let initial = module.initial_bytes(index, &addresses);
            let view = self.memory.find(*address as usize, initial.len())?.view;
            // SAFETY: the view has so many bytes, which nothing else uses yet.
            unsafe { copy(view, initial.as_ptr() as usize, initial.len()) };
        }
        let names = module
            .variables()
            .map(|variable| (variable.name.to_owned(), variable.bytes as usize));
        let names = names.collect();
        Ok(Globals {
            base,
            addresses,
            names,
        })
    }

    /// The barrier of cooperative launches on a stream, which run one after the other.
    pub(super) fn workspace(&mut self, device: usize, stream: usize) -> Result<usize, Code> {
        if let Some(known) = self.workspaces.get(&(device, stream)) {
            return Ok(*known);
        }
        let zero = [0_u32; 2];
        let base = self.allocate(Request {
            bytes: size_of_val(&zero),
            kind: Kind::Device(device),
            device,
            pool: None,
            charged: false,
        })?;
        self.memory.keep(base);
        let view = self.memory.find(base, size_of_val(&zero))?.view;
        // SAFETY: the view has so many bytes, which nothing else uses yet.
        unsafe { copy(view, zero.as_ptr() as usize, size_of_val(&zero)) };
        self.workspaces.insert((device, stream), base);
        Ok(base)
    }

    /// `cuModuleUnload`.
    pub(crate) fn unload_module(&mut self, handle: usize) -> Result<(), Code> {
        let base = self.modules.unload(handle)?;
        if base != 0 {
            self.free(base);
        }
        Ok(())
    }

    /// Unloads the modules of a device.
    pub(super) fn unload_modules(&mut self, device: usize) -> Result<(), Code> {
        let handles = self.modules.of_device(device);
        handles
            .into_iter()
            .try_for_each(|handle| self.unload_module(handle))
    }
}
