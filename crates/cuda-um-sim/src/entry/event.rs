//! Events.

use super::guard::{entry_points, with_state, with_work_stream};
use super::pointer::Out;
use super::stream::EXTERNAL;
use crate::engine::Code;

/// `cudaEventDisableTiming`.
const DISABLE_TIMING: u32 = 2;
/// Blocking wait, no timing; sharing with other processes (4) is not simulated.
const FLAGS: u32 = 3;

entry_points! { Runtime;
    fn cudaEventCreateWithFlags(core, event: Out<usize>, flags: u32) = cuEventCreate {
        with_state(core, |state, device| {
            if event.is_null() || flags & !FLAGS != 0 {
                return Err(Code::INVALID_VALUE);
            }
            event.put(state.events.create(device, flags & DISABLE_TIMING == 0))
        })
    }

    fn cudaEventCreate(core, event: Out<usize>) { bodies::cudaEventCreateWithFlags(core, event, 0) }

    fn cudaEventDestroy(core, event: usize) = cuEventDestroy_v2 {
        core.state.lock().events.destroy(event)
    }

    fn cudaEventRecord(core, event: usize, stream: usize) = cuEventRecord {
        bodies::cudaEventRecordWithFlags(core, event, stream, 0)
    }

    fn cudaEventRecordWithFlags(core, event: usize, stream: usize, flags: u32) = cuEventRecordWithFlags {
        with_work_stream(core, stream, |state, stream| {
            if flags > EXTERNAL {
                return Err(Code::INVALID_VALUE);
            }
            state.record_event(event, stream, flags == EXTERNAL)
        })
    }

    fn cudaEventQuery(core, event: usize) = cuEventQuery {
        core.state.lock().use_event(event)?;
        core.call_unsafe()?;
        let recorded = with_state(core, |state, _| {
            state.now += core.machine.cost.query;
            Ok(state.events.get(event)?.recorded.clone())
        })?;
        let Some(recorded) = recorded else { return Ok(()) };
        if recorded.get().is_none() { Err(Code::NOT_READY) } else { core.observe(&[recorded]) }
    }

    fn cudaEventSynchronize(core, event: usize) = cuEventSynchronize {
        core.state.lock().use_event(event)?;
        core.call_unsafe()?;
        let recorded = core.state.lock().events.get(event)?.recorded.clone();
        core.wait(recorded.as_slice())
    }

    fn cudaEventElapsedTime(core, milliseconds: Out<f32>, start: usize, end: usize) = cuEventElapsedTime = cuEventElapsedTime_v2 {
        let (time, backwards) = core.state.lock().events.elapsed(start, end)?;
        let time = time.as_secs_f32() * 1e3;
        milliseconds.put(if backwards { -time } else { time })
    }
}
