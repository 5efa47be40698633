//! Functions of NCCL.

use std::ffi::{CStr, c_char, c_void};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::guard::{Lookup, Outcome, entry_points, of_all_slots};
use super::pointer::Out;
use crate::engine::collective::{
    Communicator, IN_PROGRESS, INVALID_ARGUMENT, Kind, REMOTE_ERROR, Raw, SYSTEM_ERROR,
    UNHANDLED_CUDA_ERROR,
};
use crate::engine::{Core, ThreadState};
use crate::slot::SLOTS;
use cuda_um_sys as sys;

/// The simulated version: one with all of this and nothing later.
const VERSION: i32 = 22_707;

/// How long a call waits for ranks that do not come. NCCL waits for ever.
const PATIENCE: Duration = Duration::from_secs(10);

/// Waits until all ranks have joined.
fn wait_for_ranks(core: &Core, handle: usize) -> Outcome {
    let began = Instant::now();
    loop {
        let outcome = core.state.lock().collectives.check(handle);
        if outcome != Err(IN_PROGRESS) {
            return outcome;
        }
        if began.elapsed() > PATIENCE {
            let mut state = core.state.lock();
            let text = "ncclCommInitRankConfig waits for ranks that do not come".to_owned();
            let clique = state.collectives.get(handle)?.clique;
            state.collectives.blame(&clique, text, SYSTEM_ERROR);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn put<T>(place: Out<T>, value: T) -> Outcome {
    place.put(value).map_err(|_| INVALID_ARGUMENT)
}

fn communicate(core: &Arc<Core>, raw: Raw) -> Outcome {
    let mut state = core.state.lock();
    let call = state.check_collective(raw)?;
    let calls = state.collectives.add_to_group(call);
    state.communicate(core, calls)
}

entry_points! { Collective;
    fn ncclGetVersion(_core, version: Out<i32>) { put(version, VERSION) }

    fn ncclGetUniqueId(core, id: Out<[u8; 128]>) {
        put(id, core.state.lock().collectives.unique_id(core.id))
    }

    fn ncclCommInitRankConfig(
        core, communicator: Out<usize>, ranks: i32, id: sys::ncclUniqueId, rank: i32, config: Out<sys::ncclConfig_t>,
    ) {
        let config = if config.is_null() { sys::ncclConfig_t::INITIALIZER } else { config.get().map_err(|_| INVALID_ARGUMENT)? };
        let number = |number: i32| usize::try_from(number).map_err(|_| INVALID_ARGUMENT);
        let known = sys::ncclConfig_t::INITIALIZER;
        if (config.size, config.magic) != (known.size, known.magic) || communicator.is_null() {
            return Err(INVALID_ARGUMENT);
        }
        let (ranks, new) = (number(ranks)?, Communicator {
            clique: id.internal,
            rank: number(rank)?,
            device: ThreadState::with(core.id, |thread| thread.device),
            blocking: config.blocking != 0,
        });
        let mut state = core.state.lock();
        let handle = state.handles.fresh();
        let in_group = state.collectives.join(handle, ranks, new)?;
        drop(state);
        put(communicator, handle)?;
        match (in_group, new.blocking) {
            (true, true) => Ok(()),
            (_, false) => Err(IN_PROGRESS),
            (false, true) => wait_for_ranks(core, handle),
        }
    }

    fn ncclCommDestroy(core, communicator: usize) {
        let ends = core.state.lock().collectives.ends(communicator)?;
        core.wait(&ends).map_err(|_| UNHANDLED_CUDA_ERROR)?;
        core.state.lock().collectives.release(communicator, None)
    }

    fn ncclCommAbort(core, communicator: usize) {
        core.state.lock().collectives.release(communicator, Some(REMOTE_ERROR))
    }

    fn ncclCommGetAsyncError(core, communicator: usize, result: Out<u32>) {
        let state = core.state.lock();
        state.collectives.get(communicator)?;
        put(result, state.collectives.check(communicator).map_or_else(|code| code.0, |()| 0))
    }

    fn ncclGroupStart(core) {
        core.state.lock().collectives.start_group();
        Ok(())
    }

    fn ncclGroupEnd(core) {
        let mut state = core.state.lock();
        let (joined, calls) = state.collectives.end_group()?;
        state.communicate(core, calls)?;
        let blocking = |handle: &usize| state.collectives.get(*handle).is_ok_and(|it| it.blocking);
        let (waits, others): (Vec<_>, Vec<_>) = joined.into_iter().partition(blocking);
        drop(state);
        waits.into_iter().try_for_each(|handle| wait_for_ranks(core, handle))?;
        if others.is_empty() { Ok(()) } else { Err(IN_PROGRESS) }
    }

    fn ncclBroadcast(
        core, source: usize, target: usize, count: usize, datatype: u32, root: i32, communicator: usize, stream: usize,
    ) {
        communicate(core, Raw { kind: Kind::Broadcast { root }, source, target, count, datatype, communicator, stream })
    }

    fn ncclAllReduce(
        core, source: usize, target: usize, count: usize, datatype: u32, operation: u32, communicator: usize, stream: usize,
    ) {
        communicate(core, Raw { kind: Kind::AllReduce(operation), source, target, count, datatype, communicator, stream })
    }

    fn ncclReduceScatter(
        core, source: usize, target: usize, count: usize, datatype: u32, operation: u32, communicator: usize, stream: usize,
    ) {
        communicate(core, Raw { kind: Kind::ReduceScatter(operation), source, target, count, datatype, communicator, stream })
    }

    fn ncclAllGather(
        core, source: usize, target: usize, count: usize, datatype: u32, communicator: usize, stream: usize,
    ) {
        communicate(core, Raw { kind: Kind::AllGather, source, target, count, datatype, communicator, stream })
    }

    fn ncclSend(core, source: usize, count: usize, datatype: u32, to: i32, communicator: usize, stream: usize) {
        communicate(core, Raw { kind: Kind::Send { to }, source, target: source, count, datatype, communicator, stream })
    }

    fn ncclRecv(core, target: usize, count: usize, datatype: u32, from: i32, communicator: usize, stream: usize) {
        communicate(core, Raw { kind: Kind::Receive { from }, source: target, target, count, datatype, communicator, stream })
    }
}

/// The texts of the results, from 0.
const TEXTS: [&CStr; 8] = [
    c"no error",
    c"unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
    c"unhandled system error (run with NCCL_DEBUG=INFO for details)",
    c"internal error - please report this issue to the NCCL developers",
    c"invalid argument (run with NCCL_DEBUG=WARN for details)",
    c"invalid usage (run with NCCL_DEBUG=WARN for details)",
    c"remote process exited or there was a network error",
    c"NCCL operation in progress",
];

extern "C" fn ncclGetErrorString(result: u32) -> *const c_char {
    let text = TEXTS.get(result as usize);
    text.unwrap_or(&c"unknown result code").as_ptr()
}

extern "C" fn ncclGetLastError(_communicator: usize) -> *const c_char {
    c"".as_ptr()
}

fn function<const SLOT: usize>(name: &str) -> Option<*const c_void> {
    match name {
        "ncclGetErrorString" => Some(ncclGetErrorString as *const c_void),
        "ncclGetLastError" => Some(ncclGetLastError as *const c_void),
        name => lookup::<SLOT>(name),
    }
}

static FUNCTIONS: [Lookup; SLOTS] = of_all_slots!(function);

/// A function of the simulated NCCL; null if it does not exist there.
pub(crate) fn symbol(slot: usize, name: &str) -> *const c_void {
    FUNCTIONS[slot](name).unwrap_or(std::ptr::null())
}
