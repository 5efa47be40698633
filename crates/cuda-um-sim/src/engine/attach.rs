//! Attaching managed memory to a stream or to the host.

use std::sync::Arc;

use super::core::Core;
use super::managed::Attach;
use super::state::State;
use super::stream::Stream;

impl State {
    /// Enqueues a change of the work that may touch an allocation.
    pub(crate) fn attach(
        &mut self,
        core: &Arc<Core>,
        stream: &Arc<Stream>,
        base: usize,
        attach: Attach,
    ) {
        self.now += self.machine.cost.enqueue;
        let id = self.memory.enqueued_id(base);
        let core = core.clone();
        self.enqueue(stream, move |start| {
            let mut state = core.state.lock();
            if state.memory.is_still(id, base)
                && let Some(managed) = state.managed.get_mut(base)
            {
                managed.attach = attach;
            }
            start
        });
    }
}
