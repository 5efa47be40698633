//! Release of memory.

use super::guard::{entry_points, with_work_stream};
use crate::engine::{Code, Kind};

entry_points! { Release;
    fn cudaFree(core, pointer: usize) {
        core.state.lock().refuse_if_poisoned(pointer)?;
        core.call_unsafe()?;
        if pointer == 0 || core.state.lock().free_of_graph(pointer)? {
            return Ok(());
        }
        {
            let mut state = core.state.lock();
            if matches!(state.memory.freeable(pointer)?.kind, Kind::Pinned { .. }) {
                return Err(Code::INVALID_VALUE);
            }
        }
        // The memory is released after all work that may use it has ended.
        core.wait_device(None)?;
        let mut state = core.state.lock();
        state.memory.freeable(pointer)?;
        state.free(pointer);
        Ok(())
    }

    fn cudaFreeHost(core, pointer: usize) {
        core.state.lock().refuse_if_poisoned(pointer)?;
        core.call_unsafe()?;
        if pointer == 0 {
            return Ok(());
        }
        if !matches!(core.state.lock().memory.freeable(pointer)?.kind, Kind::Pinned { .. }) {
            return Err(Code::INVALID_VALUE);
        }
        core.wait_device(None)?;
        let mut state = core.state.lock();
        state.memory.freeable(pointer)?;
        state.free(pointer);
        Ok(())
    }

    fn cudaFreeAsync(core, pointer: usize, stream: usize) {
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
