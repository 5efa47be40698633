//! Frees of memory.

use std::sync::Arc;

use super::core::Core;
use super::state::State;
use super::status::Code;
use super::stream::Stream;

impl State {
    /// Ends an allocation, and returns its bytes to its device and its pool.
    pub(crate) fn free(&mut self, base: usize) {
        self.uvm().remove(base);
        let Some(allocation) = self.memory.remove(base) else {
            return;
        };
        self.devices[allocation.device].explicit_bytes -= allocation.charged;
        if let Some(pool) = allocation.pool {
            let devices = &mut self.devices;
            self.pools.release(pool, allocation.bytes, devices);
        }
    }

    /// Enqueues the free of an allocation, or captures it.
    pub(crate) fn free_async(
        &mut self,
        core: &Arc<Core>,
        stream: &Arc<Stream>,
        base: usize,
    ) -> Result<(), Code> {
        if self.graphs.is_capturing(stream)? {
            return self.capture_free(stream, base);
        }
        if self.free_of_graph(base)? {
            return Ok(());
        }
        let number = self.handles.fresh();
        self.memory.freeable(base)?.freeing = Some(number);
        self.now += self.machine.cost.pool_alloc;
        let core = core.clone();
        self.enqueue(stream, move |start| {
            core.state.lock().free(base);
            start
        });
        Ok(())
    }

    /// A poisoned context frees nothing: `address` is only checked.
    ///
    /// # Errors
    /// The sticky error, if the context is poisoned.
    pub(crate) fn refuse_if_poisoned(&mut self, address: usize) -> Result<(), Code> {
        let Some(poison) = self.context.poison() else {
            return Ok(());
        };
        self.memory.refuse_free(address);
        Err(poison)
    }
}
