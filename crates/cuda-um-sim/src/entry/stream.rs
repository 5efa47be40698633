//! Streams and host functions.

use super::guard::{entry_points, with_any_stream, with_state, with_stream, with_work_stream};
use super::pointer::{HostFunction, Out, StreamCallback, UserData};
use crate::engine::{Code, HostWork, StreamKind};

/// `cudaEventWaitExternal` and `cudaEventRecordExternal`.
pub(super) const EXTERNAL: u32 = 1;

fn kind(flags: u32) -> Result<StreamKind, Code> {
    match flags {
        0 => Ok(StreamKind::Blocking),
        1 => Ok(StreamKind::NonBlocking),
        _ => Err(Code::INVALID_VALUE),
    }
}

entry_points! { Runtime;
    fn cudaStreamCreateWithFlags(core, stream: Out<usize>, flags: u32) = cuStreamCreate {
        with_state(core, |state, device| {
            let kind = kind(flags)?;
            if stream.is_null() {
                return Err(Code::INVALID_VALUE);
            }
            stream.put(state.streams.create(device, kind).handle)
        })
    }

    // All streams run on threads of the same priority.
    fn cudaStreamCreateWithPriority(core, stream: Out<usize>, flags: u32, _priority: i32) = cuStreamCreateWithPriority {
        bodies::cudaStreamCreateWithFlags(core, stream, flags)
    }

    fn cudaStreamCreate(core, stream: Out<usize>) { bodies::cudaStreamCreateWithFlags(core, stream, 0) }

    fn cudaStreamGetFlags(core, stream: usize, flags: Out<u32>) = cuStreamGetFlags {
        with_any_stream(core, stream, |_, stream| flags.put(u32::from(stream.kind == StreamKind::NonBlocking)))
    }

    // All streams run on threads of the same priority.
    fn cudaStreamGetPriority(core, stream: usize, priority: Out<i32>) = cuStreamGetPriority { with_any_stream(core, stream, |_, _| priority.put(0)) }

    fn cudaStreamGetId(core, stream: usize, id: Out<u64>) = cuStreamGetId { with_any_stream(core, stream, |_, stream| id.put(stream.handle as u64)) }

    fn cudaStreamGetDevice(core, stream: usize, device: Out<i32>) = cuStreamGetDevice {
        with_any_stream(core, stream, |_, stream| device.put(stream.device as i32))
    }

    fn cudaStreamDestroy(core, stream: usize) = cuStreamDestroy_v2 {
        if stream <= 2 {
            return Err(Code::INVALID_RESOURCE_HANDLE);
        }
        with_any_stream(core, stream, |state, found| {
            state.graphs.use_destroyed(found)?;
            state.streams.destroy(stream)
        })
    }

    fn cudaStreamSynchronize(core, stream: usize) = cuStreamSynchronize {
        let last = with_stream(core, stream, |_, stream| Ok(stream.last()))?;
        core.call_unsafe()?;
        core.wait(last.as_slice())
    }

    fn cudaStreamQuery(core, stream: usize) = cuStreamQuery {
        let last = with_stream(core, stream, |state, stream| {
            state.now += core.machine.cost.query;
            Ok(stream.last())
        })?;
        core.call_unsafe()?;
        let Some(last) = last else { return Ok(()) };
        if last.get().is_none() { Err(Code::NOT_READY) } else { core.observe(&[last]) }
    }

    fn cudaStreamWaitEvent(core, stream: usize, event: usize, flags: u32) = cuStreamWaitEvent {
        with_work_stream(core, stream, |state, stream| {
            if flags > 1 {
                return Err(Code::INVALID_VALUE);
            }
            state.wait_event(stream, event, flags == EXTERNAL)
        })
    }

    // Attributes of streams are hints.
    fn cudaStreamSetAttribute(core, stream: usize, _attribute: u32, _value: usize) {
        with_any_stream(core, stream, |_, _| Ok(()))
    }

    fn cudaStreamAddCallback(core, stream: usize, callback: StreamCallback, data: UserData, flags: u32) {
        let given = stream;
        with_stream(core, stream, |state, stream| {
            if callback.is_null() || flags != 0 {
                return Err(Code::INVALID_VALUE);
            }
            let run = std::sync::Arc::new(move || {
                let data = data;
                callback.call(given, data);
            });
            state.call_host(core, stream, HostWork { run, given: [0; 2] })
        })
    }

    fn cudaLaunchHostFunc(core, stream: usize, function: HostFunction, data: UserData) = cuLaunchHostFunc {
        with_work_stream(core, stream, |state, stream| {
            state.call_host(core, stream, function.with(data)?)
        })
    }
}
