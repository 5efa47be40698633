//! Attaching managed memory to a stream or to the host.

use std::sync::Arc;

use super::allocation::Attach;
use super::core::Core;
use super::state::State;
use super::stream::Stream;

impl State {
    /// Changes who may touch an allocation, when the stream gets there.
    pub(crate) fn attach(
        &mut self,
        core: &Arc<Core>,
        stream: &Arc<Stream>,
        base: usize,
        attach: Attach,
    ) {
        self.now += core.machine.cost.enqueue;
        let allocation = self.named(base);
        let work = Box::new(move |core: &Arc<Core>, start| {
            let mut state = core.state.lock();
            if !state.is_still(allocation, base) {
                return start;
            }
            if let Some(managed) = state
                .allocations
                .get_mut(&base)
                .and_then(|allocation| allocation.managed_mut())
            {
                managed.attach = attach;
            }
            start
        });
        self.enqueue(core, stream, Vec::new(), work);
    }
}
