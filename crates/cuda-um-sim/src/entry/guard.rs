//! What is around every call, and how entry points are defined.

use std::ffi::c_void;
use std::sync::Arc;

use cuda_um_sys::cudaError;

use super::client::deliver_many;
use crate::call_log::{CallRecord, KEPT};
use crate::engine::{
    Code, Core, State, Stream, ThreadState, begin_call, calls_are_forbidden, contain, send_events,
};
use crate::misuse::Misuse;
use crate::slot;

/// What a call gives: nothing, or the code of a failure.
pub(crate) type Outcome = Result<(), Code>;

/// Whether a call touches the context, and so fails when it is poisoned, or fails only as injected.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    /// Of the runtime: its failure becomes the thread's last error.
    Runtime,
    /// The same, and gives memory back: a poisoned context, in which nothing is freed, looks at what is freed twice.
    Release,
    /// Of the driver: it has no last error.
    Driver,
    /// Asks about errors and versions: works in a poisoned context.
    Inquiry,
}

/// Around every call: injected failures, the poisoned context, the last error, the trace.
pub(crate) fn enter(
    slot: usize,
    name: &'static str,
    level: Level,
    call: impl FnOnce(&Arc<Core>) -> Outcome,
) -> u32 {
    let Some(core) = slot::core(slot) else {
        return Code::CUDART_UNLOADING.0;
    };
    begin_call(name);
    let outcome = contain(|| guarded(&core, name, level, call));
    let code = match outcome {
        Some(Ok(())) => Code::SUCCESS,
        Some(Err(code)) => code,
        None => Code::UNKNOWN,
    };
    // "Not ready" is an answer: measured with CUDA 13.0, it leaves the last error alone.
    if !matches!(code, Code::SUCCESS | Code::NOT_READY)
        && matches!(level, Level::Runtime | Level::Release)
    {
        ThreadState::with(core.id, |thread| thread.last_error = code);
    }
    let mut state = core.state.lock();
    if state.poison.is_some() && code != Code::SUCCESS && level != Level::Inquiry {
        drop(state);
        core.rest();
        state = core.state.lock();
    }
    let at = state.now;
    state.trace.push_back(CallRecord {
        name,
        result: cudaError(code.0),
        at,
    });
    if state.trace.len() > KEPT {
        state.trace.pop_front();
    }
    let waiting = state.activity.waiting();
    drop(state);
    deliver_many(&core, waiting);
    send_events();
    code.0
}

fn guarded(
    core: &Arc<Core>,
    name: &'static str,
    level: Level,
    call: impl FnOnce(&Arc<Core>) -> Outcome,
) -> Outcome {
    let mut injected = None;
    {
        let mut state = core.state.lock();
        if calls_are_forbidden() {
            state.misuse.push(Misuse::CallInHostFunction {
                call: name.to_owned(),
            });
            return Err(Code::NOT_PERMITTED);
        }
        if level != Level::Inquiry
            && let Some(poison) = state.poison
        {
            drop(state);
            // It answers with the poison, after a look at what it frees.
            return if level == Level::Release {
                call(core)
            } else {
                Err(poison)
            };
        }
        for failure in state
            .failures
            .iter_mut()
            .filter(|failure| failure.call == name)
        {
            if failure.strikes() && injected.is_none() {
                injected = Some((Code(failure.code), failure.sticky, failure.after));
            }
        }
    }
    let Some((code, sticky, after)) = injected else {
        return call(core);
    };
    if after {
        call(core)?;
    }
    let device = ThreadState::with(core.id, |thread| thread.device);
    // These are called while another device is current than the one that they are about.
    let is_choice = ["cudaSetDevice", "cudaGetDevice"].contains(&name);
    let mut state = core.state.lock();
    let has_streams = state
        .all_streams()
        .any(|stream| is_choice || stream.device == device);
    if sticky || code.is_sticky() || code.is_loss() && has_streams {
        state.poison(code);
    }
    Err(code)
}

/// Uses the state of the calling thread's current device.
pub(crate) fn with_state<R>(
    core: &Arc<Core>,
    use_it: impl FnOnce(&mut State, usize) -> Result<R, Code>,
) -> Result<R, Code> {
    let device = ThreadState::with(core.id, |thread| thread.device);
    use_it(&mut core.state.lock(), device)
}

/// Uses the state and a stream of the calling thread's current device.
pub(crate) fn with_stream<R>(
    core: &Arc<Core>,
    stream: usize,
    use_it: impl FnOnce(&mut State, &Arc<Stream>) -> Result<R, Code>,
) -> Result<R, Code> {
    with_state(core, |state, device| {
        let stream = state.stream(stream, device)?;
        use_it(state, &stream)
    })
}

/// Defines entry points: for each a function compiled once a slot, and together a lookup by name.
macro_rules! entry_points {
    ($level:ident; $(
        fn $name:ident $(as $exported:literal)? ($core:ident $(, $argument:ident: $type:ty)* $(,)?) $body:block
    )*) => {
        #[allow(clippy::too_many_arguments, reason = "as many as the C function has")]
        mod calls {
            use super::*;
            $(pub(super) fn $name(slot: usize $(, $argument: $type)*) -> u32 {
                let name = $crate::entry::guard::exported!(stringify!($name) $(, $exported)?);
                $crate::entry::guard::enter(slot, name, $crate::entry::guard::Level::$level, |$core| $body)
            })*
        }

        mod shims {
            use super::*;
            $(pub(super) unsafe extern "C" fn $name<const SLOT: usize>($($argument: $type),*) -> u32 {
                calls::$name(SLOT $(, $argument)*)
            })*
        }

        /// The function of this name, compiled for this slot.
        pub(super) fn lookup<const SLOT: usize>(name: &str) -> Option<*const std::ffi::c_void> {
            $(if name == stringify!($name) {
                return Some(shims::$name::<SLOT> as *const std::ffi::c_void);
            })*
            None
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

/// A function for each slot, as an array.
macro_rules! of_all_slots {
    ($function:ident) => {
        $crate::entry::guard::of_all_slots! {
            $function: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
        }
    };
    ($function:ident: $($slot:literal)*) => {
        [$($function::<$slot>),*]
    };
}

/// Finds a function by name.
pub(super) type Lookup = fn(&str) -> Option<*const c_void>;

pub(crate) use {entry_points, exported, of_all_slots};
