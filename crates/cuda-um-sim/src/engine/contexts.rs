//! The contexts of the driver: the primary one of each device, and those that a program creates.
//!
//! A created context has a handle of its own, and shares everything else with the primary context of its device.

use std::collections::HashMap;

use super::core::Core;
use super::handle::Handles;
use super::status::Code;
use super::thread::ThreadState;

/// The handle of the primary context of device 0. No other handle is so large.
const FIRST: usize = 1 << 62;
const STEP: usize = 16;

/// The handle of the primary context of a device.
pub(crate) fn primary_context(device: usize) -> usize {
    FIRST + device * STEP
}

/// The contexts of one simulator.
pub(crate) struct Contexts {
    handles: Handles,
    devices: usize,
    /// The device of each context that a program created.
    created: HashMap<usize, usize>,
}

impl Contexts {
    pub(super) fn new(handles: Handles, devices: usize) -> Contexts {
        let created = HashMap::new();
        Contexts {
            handles,
            devices,
            created,
        }
    }

    /// The device of a context.
    pub(crate) fn device(&self, context: usize) -> Result<usize, Code> {
        let primary = (0..self.devices).find(|device| primary_context(*device) == context);
        let found = primary.or_else(|| self.created.get(&context).copied());
        found.ok_or(Code::DEVICE_UNINITIALIZED)
    }

    pub(crate) fn create(&mut self, device: usize) -> usize {
        let context = self.handles.fresh();
        self.created.insert(context, device);
        context
    }

    /// Destroys a context that a program created; a primary one is not destroyed.
    pub(crate) fn destroy(&mut self, context: usize) -> Result<(), Code> {
        let found = self.created.remove(&context);
        found.map(drop).ok_or(Code::DEVICE_UNINITIALIZED)
    }

    /// Makes a context the thread's current one; 0 for none, and then the runtime uses device 0.
    pub(crate) fn make_current(
        &self,
        context: usize,
        thread: &mut ThreadState,
    ) -> Result<(), Code> {
        thread.device = if context == 0 {
            0
        } else {
            self.device(context)?
        };
        thread.context = context;
        Ok(())
    }
}

impl Core {
    /// `cudaDeviceReset`: waits for the device, then ends its streams, its allocations and its modules.
    pub(crate) fn reset_device(&self, device: usize) -> Result<(), Code> {
        self.call_unsafe()?;
        self.wait_device(Some(device))?;
        let mut state = self.state.lock();
        let streams = state
            .streams
            .iter()
            .filter(|stream| stream.device == device);
        let handles: Vec<_> = streams.map(|stream| stream.handle).collect();
        // The default streams have no handle that can be destroyed.
        for handle in handles {
            let _ = state.streams.destroy(handle);
        }
        let allocations = state
            .memory
            .iter()
            .filter(|allocation| allocation.device == device && !allocation.kept);
        let bases: Vec<_> = allocations.map(|allocation| allocation.base).collect();
        bases.into_iter().for_each(|base| state.free(base));
        state.unload_modules(device)?;
        state.registered.forget(device);
        state.devices[device].retained = 0;
        Ok(())
    }
}
