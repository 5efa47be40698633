//! Release of memory.

use std::sync::Arc;

use super::guard::{Outcome, entry_points, with_work_stream};
use crate::engine::{Code, Core, Kind};

/// Releases memory, after all work that may use it has ended. The call is for pinned memory, or for all other memory.
fn free(core: &Arc<Core>, pointer: usize, pinned: bool) -> Outcome {
    let kind = core.state.lock().memory.freeable(pointer)?.kind;
    if matches!(kind, Kind::Pinned { .. }) != pinned {
        return Err(Code::INVALID_VALUE);
    }
    core.wait_device(None)?;
    let mut state = core.state.lock();
    state.memory.freeable(pointer)?;
    state.free(pointer);
    Ok(())
}

entry_points! { Release;
    fn cudaFree(core, pointer: usize) = cuMemFree_v2 {
        core.state.lock().refuse_if_poisoned(pointer)?;
        core.call_unsafe()?;
        if pointer == 0 || core.state.lock().free_of_graph(pointer)? { Ok(()) } else { free(core, pointer, false) }
    }

    fn cudaFreeHost(core, pointer: usize) = cuMemFreeHost {
        core.state.lock().refuse_if_poisoned(pointer)?;
        core.call_unsafe()?;
        if pointer == 0 { Ok(()) } else { free(core, pointer, true) }
    }

    fn cudaFreeAsync(core, pointer: usize, stream: usize) = cuMemFreeAsync {
        core.state.lock().refuse_if_poisoned(pointer)?;
        with_work_stream(core, stream, |state, stream| {
            if pointer == 0 {
                return Ok(());
            }
            if state.memory.freeable(pointer)?.pool.is_none() {
                return Err(Code::INVALID_VALUE);
            }
            state.free_async(core, stream, pointer)
        })
    }
}
