//! The code around every call, and the definition of entry points.

use std::ffi::c_void;
use std::sync::Arc;

use cuda_um_sys::cudaError;

use super::client::deliver_many;
use super::in_call;
use crate::call_log::CallRecord;
use crate::engine::{
    Code, Core, State, Stream, ThreadState, begin_call, call_failed, calls_are_forbidden, contain,
    send_events, take_detail,
};
use crate::misuse::Misuse;
use crate::slot::{self, SLOTS};

/// The outcome of a call: success, or the code of a failure.
pub(crate) type Outcome = Result<(), Code>;

/// The group of a call: it decides whether a poisoned context makes the call fail, and whether a failure becomes the last error.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    /// Calls of the runtime: a failure becomes the thread's last error.
    Runtime,
    /// Calls of the runtime that release memory. In a poisoned context they release nothing, but report memory that is freed twice.
    Release,
    /// Calls of the driver, which has no last error.
    Driver,
    /// Queries of errors and versions, which work in a poisoned context.
    Inquiry,
}

impl Level {
    /// The level of a function of the driver that has the same effect.
    pub(crate) const fn of_driver(self) -> Level {
        match self {
            Level::Inquiry => self,
            _ => Level::Driver,
        }
    }
}

/// The body of a call with its arguments, which runs at most once; not generic, so that the code around all calls is compiled once.
type Body<'a> = &'a mut dyn FnMut(&Arc<Core>) -> Outcome;

/// Runs a call, with everything around it: injected failures, the poisoned context, the last error, the trace.
pub(crate) fn enter(slot: usize, name: &'static str, level: Level, call: Body<'_>) -> u32 {
    let _inside = in_call::begin();
    let Some(core) = slot::core(slot) else {
        return Code::CUDART_UNLOADING.0;
    };
    begin_call(name);
    take_detail();
    let outcome = contain(|| guarded(&core, name, level, call));
    let code = match outcome {
        Some(Ok(())) => Code::SUCCESS,
        Some(Err(code)) => code,
        None => Code::UNKNOWN,
    };
    if code != Code::SUCCESS && level != Level::Inquiry {
        call_failed(code);
    }
    // "Not ready" is not a failure: it does not change the last error (measured with CUDA 13.0).
    if !matches!(code, Code::SUCCESS | Code::NOT_READY)
        && matches!(level, Level::Runtime | Level::Release)
    {
        ThreadState::with(core.id, |thread| thread.last_error = code);
    }
    if core.context.poison().is_some() && code != Code::SUCCESS && level != Level::Inquiry {
        core.context.rest();
    }
    let mut state = core.state.lock();
    let at = state.now;
    state.calls.add(CallRecord {
        name,
        result: cudaError(code.0),
        at,
    });
    let waiting = state.records.activity.waiting();
    let unused = state.graphs.unused_objects();
    drop(state);
    for object in unused {
        contain(|| (object.run)());
    }
    deliver_many(&core, waiting);
    send_events();
    code.0
}

fn guarded(core: &Arc<Core>, name: &'static str, level: Level, call: Body<'_>) -> Outcome {
    if calls_are_forbidden() {
        let call = name.to_owned();
        let misuse = Misuse::CallInHostFunction { call };
        core.state.lock().misuse.report(misuse);
        return Err(Code::NOT_PERMITTED);
    }
    if level != Level::Inquiry
        && let Some(poison) = core.context.poison()
    {
        // A call that releases memory returns the sticky error, too, after it has checked the address.
        return match level {
            Level::Release => call(core),
            _ => Err(poison),
        };
    }
    let device = ThreadState::with(core.id, |thread| thread.device);
    if !matches!(level, Level::Inquiry | Level::Release)
        && !NEED_NO_CONTEXT.contains(&name)
        && let Some(code) = core.context.loss_of(device)
    {
        return Err(code);
    }
    let injected = core.state.lock().failures.strike(name, device);
    let Some(failure) = injected else {
        return call(core);
    };
    if failure.after {
        call(core)?;
    }
    let code = Code(failure.code);
    if failure.sticky || code.is_sticky() || code.is_loss() && device_has_streams(core, name) {
        match failure.device {
            Some(_) => core.context.lose(device, code),
            None => core.context.set_poison(code),
        }
    }
    Err(code)
}

/// Calls that work although the current device is lost.
const NEED_NO_CONTEXT: &[&str] = &[
    "cudaSetDevice",
    "cudaGetDevice",
    "cudaGetDeviceCount",
    "cudaDeviceGetAttribute",
    "cudaDeviceCanAccessPeer",
    "cudaDeviceGetP2PAttribute",
];

/// Whether the device that a call is about has streams.
fn device_has_streams(core: &Core, call: &str) -> bool {
    let device = ThreadState::with(core.id, |thread| thread.device);
    // These calls concern another device than the current one: any device counts.
    let is_choice = ["cudaSetDevice", "cudaGetDevice"].contains(&call);
    let state = core.state.lock();
    let mut streams = state.streams.iter();
    streams.any(|stream| is_choice || stream.device == device)
}

/// Passes the state and the thread's current device to `use_it`.
pub(crate) fn with_state<R>(
    core: &Arc<Core>,
    use_it: impl FnOnce(&mut State, usize) -> Result<R, Code>,
) -> Result<R, Code> {
    let device = ThreadState::with(core.id, |thread| thread.device);
    use_it(&mut core.state.lock(), device)
}

/// Passes the state and a stream of the thread's current device to `use_it`, for a call that asks for a property of the stream.
pub(crate) fn with_any_stream<R>(
    core: &Arc<Core>,
    stream: usize,
    use_it: impl FnOnce(&mut State, &Arc<Stream>) -> Result<R, Code>,
) -> Result<R, Code> {
    with_state(core, |state, device| {
        let stream = state.streams.get(stream, device)?;
        use_it(state, &stream)
    })
}

/// The same for a call that can be captured.
pub(crate) fn with_work_stream<R>(
    core: &Arc<Core>,
    stream: usize,
    use_it: impl FnOnce(&mut State, &Arc<Stream>) -> Result<R, Code>,
) -> Result<R, Code> {
    with_any_stream(core, stream, |state, stream| {
        state.graphs.use_stream(stream)?;
        use_it(state, stream)
    })
}

/// The same for all other calls, which invalidate a capture of the stream.
pub(crate) fn with_stream<R>(
    core: &Arc<Core>,
    stream: usize,
    use_it: impl FnOnce(&mut State, &Arc<Stream>) -> Result<R, Code>,
) -> Result<R, Code> {
    with_any_stream(core, stream, |state, stream| {
        state.graphs.use_uncaptured(stream)?;
        use_it(state, stream)
    })
}

/// Defines entry points: for each its body, a stub for each slot that passes the slot's number on, and a row of the table. Behind `=` are the
/// functions of the driver with the same arguments and the same effect.
macro_rules! entry_points {
    ($level:ident; $(
        fn $name:ident $arguments:tt $(as $exported:literal)? $(= $twin:ident)* $body:block
    )*) => {
        #[allow(clippy::too_many_arguments, reason = "as many as the C function has")]
        pub(super) mod bodies {
            use super::*;
            $($crate::entry::guard::entry_body! { $name $arguments $body })*
        }

        #[allow(clippy::too_many_arguments, reason = "as many as the C function has")]
        mod calls {
            use super::*;
            use $crate::entry::guard::{Level, entry_call, exported};
            $(
                entry_call! { $name, exported!(stringify!($name) $(, $exported)?), Level::$level, $name $arguments }
                $(entry_call! { $twin, stringify!($twin), Level::$level.of_driver(), $name $arguments })*
            )*
        }

        mod stubs {
            use super::*;
            use $crate::entry::guard::{Entry, entry_stub, exported, of_all_slots};
            $(
                entry_stub! { $name $arguments }
                $(entry_stub! { $twin $arguments })*
            )*

            pub(in crate::entry) const ENTRIES: &[Entry] = &[$(
                Entry {
                    name: stringify!($name),
                    call: Some(exported!(stringify!($name) $(, $exported)?)),
                    of_slot: of_all_slots!($name),
                },
                $(Entry {
                    name: stringify!($twin),
                    call: Some(stringify!($twin)),
                    of_slot: of_all_slots!($twin),
                },)*
            )*];
        }
        pub(super) use stubs::ENTRIES;
    };
}

macro_rules! entry_body {
    ($name:ident ($core:ident $(, $argument:ident: $type:ty)* $(,)?) $body:block) => {
        pub(in crate::entry) fn $name(
            $core: &std::sync::Arc<$crate::engine::Core> $(, $argument: $type)*
        ) -> $crate::entry::guard::Outcome $body
    };
}

/// A call of the body `$of` under a name.
macro_rules! entry_call {
    ($name:ident, $call:expr, $level:expr, $of:ident ($core:ident $(, $argument:ident: $type:ty)* $(,)?)) => {
        #[inline(never)]
        pub(super) fn $name(slot: usize $(, $argument: $type)*) -> u32 {
            let mut body = Some(|core: &_| bodies::$of(core $(, $argument)*));
            $crate::entry::guard::enter(slot, $call, $level, &mut |core| {
                body.take().map_or(Err($crate::engine::Code::UNKNOWN), |body| body(core))
            })
        }
    };
}

macro_rules! entry_stub {
    ($name:ident ($core:ident $(, $argument:ident: $type:ty)* $(,)?)) => {
        unsafe extern "C" fn $name<const SLOT: usize>($($argument: $type),*) -> u32 {
            calls::$name(SLOT $(, $argument)*)
        }
    };
}

macro_rules! exported {
    ($name:expr) => {
        $name
    };
    ($name:expr, $exported:literal) => {
        $exported
    };
}

/// The addresses of a function for each slot.
macro_rules! of_all_slots {
    ($function:ident) => {
        $crate::entry::guard::of_all_slots! { $function: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 }
    };
    ($function:ident: $($slot:literal)*) => {
        [$($function::<$slot> as *const std::ffi::c_void),*]
    };
}

/// A function of a simulated library.
pub(super) struct Entry {
    pub(super) name: &'static str,
    /// The name under which calls are recorded and fail, if they do.
    pub(super) call: Option<&'static str>,
    pub(super) of_slot: [*const c_void; SLOTS],
}

impl Entry {
    /// A function whose calls are not recorded, and do not fail on demand.
    pub(super) const fn unrecorded(name: &'static str, of_slot: [*const c_void; SLOTS]) -> Self {
        let call = None;
        Self {
            name,
            call,
            of_slot,
        }
    }
}

/// The function of this name for a slot.
pub(super) fn find(files: &[&'static [Entry]], slot: usize, name: &str) -> Option<*const c_void> {
    let mut entries = files.iter().copied().flatten();
    entries
        .find(|entry| entry.name == name)
        .map(|entry| entry.of_slot[slot])
}

pub(crate) use {entry_body, entry_call, entry_points, entry_stub, exported, of_all_slots};
