//! Managed memory as the home of read-only buffers: the device gets a copy of the pages, and drops it without a transfer.

use std::sync::Arc;

use um_backend::cuda_um::{self, Advice, Location, Stream};

use crate::entries::Id;
use crate::entry::{Memory, Residence};
use crate::error::Result;
use crate::home::{Home, HostMemory};
use crate::state::{Guarded, Shared, State};
use crate::stats::Change;

/// Moves the pages to the host, and waits for it. From then on, the host keeps them if copies end.
pub(crate) fn settle_on_host(memory: &mut dyn HostMemory, stream: &Stream) -> cuda_um::Result<()> {
    let view = memory.view()?;
    view.advise(Advice::SetPreferredLocation(Location::Host))?;
    view.advise(Advice::UnsetReadMostly)?;
    view.prefetch(Location::Host, stream)?;
    wait(memory)
}

/// Waits for all work that uses the memory.
fn wait(memory: &mut dyn HostMemory) -> cuda_um::Result<()> {
    memory.view_mut()?.host_mut().map(drop)
}

/// Enqueues the copy of the pages of a buffer that is away.
pub(crate) fn bring_in(
    shared: &Shared,
    state: &mut State,
    (id, first): (Id, usize),
    home: &Home,
) -> Result<()> {
    let Home::Managed(memory) = home else {
        return Ok(());
    };
    let copied = shared.inbound.enqueue(|stream| {
        let view = memory.view()?;
        view.advise(Advice::SetReadMostly)?;
        Ok(view.prefetch(Location::from(&stream.device()), stream)?)
    });
    if copied.is_err() {
        // A part may be on the device.
        let _ = memory.view()?.advise(Advice::UnsetReadMostly);
    }
    copied?;
    let memory = Memory::Home(Arc::clone(memory));
    state.arrived(id, first, (Residence::Here(memory), Change::In));
    Ok(())
}

/// Takes a buffer that no guard has out of the arena. Nothing in a stream ends a copy of pages, so the host waits for the work that reads it,
/// without the lock: the state may be another one afterwards.
pub(crate) fn leave(shared: &Shared, state: &mut Guarded<'_>, id: Id) -> Result<()> {
    let entry = state.entry(id);
    let home = Arc::clone(&entry.home);
    let here = std::mem::replace(&mut entry.memory, Residence::Taken);
    // The home has the only handle then.
    drop(here);
    state.pin(id);
    let left = state.unlocked(|| match &mut *home.write() {
        Home::Managed(memory) => collapse(memory),
        _ => Ok(()),
    });
    match (&left, &*home.read()) {
        (Err(_), Home::Managed(memory)) => {
            state.entry(id).memory = Residence::Here(Memory::Home(Arc::clone(memory)));
        }
        _ => drop(state.left(id)),
    }
    let dropped = state.unpin(id);
    shared.released.notify_all();
    state.unlocked(|| drop(dropped));
    left
}

fn collapse(memory: &mut Arc<dyn HostMemory>) -> Result<()> {
    if let Some(memory) = Arc::get_mut(memory) {
        wait(memory).map_err(um_backend::CudaError::from)?;
    }
    let unset = memory
        .view()
        .and_then(|view| view.advise(Advice::UnsetReadMostly));
    Ok(unset.map_err(um_backend::CudaError::from)?)
}
