//! The contexts of the driver: the primary one of each device, and those that a program creates.
//!
//! A created context has a handle of its own, and shares everything else with the primary context of its device.

use std::collections::HashMap;

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
