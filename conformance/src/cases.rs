//! The cases, one file for each group.
//!
//! A case is a row of `cases!`: the rule as its comment; its name, the page of the source, the calls that the rule is about, the
//! needs, and `alone` or `misuse`; and a script over `|c, streams; events|`: new streams, and new events without timing. Its words:
//!
//! - Objects, released at the end of their block: `c.managed(bytes)`, `c.device(bytes)`, `c.pinned(bytes, flags)`,
//!   `c.system(bytes)`, `c.stream()`, `c.stream_at(raw)`, `c.event(flags)`, `c.mark()` (an event without timing), `c.pool()`,
//!   `c.graph_of(work)`, `c.captured(work)`. Memory may be `.filled(value)` by the host or `.zeroed()` by the device.
//! - The host's side of memory: `fill_all(value)`, `fill(range, value)`, `value_all()`, `value(range)`.
//! - The work of a stream, as a chain: `stream.set(&memory, byte).add(&memory, amount).copy(&to, &from).record(&event).sync()`;
//!   `join(&event)` is a wait of the stream. Each must succeed.
//! - Every function of [`Calls`], such as `c.memcpy(…)`, and forms for whole objects, such as `c.copy(&to, &from, kind)`. A call
//!   returns its value or its code; `ok(call)` is the value, for preparations, which must succeed.
//! - `c.gate(&stream)` holds a stream; `gate.open()` releases it, `gate.opens(name, query)` if the query was not ready;
//!   `gate.waits(name, || call)` is a call that waits for the release.
//! - Observations, which are recorded and compared: `c.is(name, value, expected)`, `c.holds(name, condition)`,
//!   `c.succeeds(name, call)`, `c.gives(name, call, code)`, `c.refuses(name, call)`; of a stream `done(name)`, `pending(name)`,
//!   `after(name, &memory, value)`, and `ends(name, &memory, value)`, which is the wait and the contents.
//!
//! A script panics if its rule does not hold.

macro_rules! cases {
    ($(
        #[doc = $rule:literal]
        $name:literal $source:ident [$($call:ident),*] $(($($need:expr),*))? $($flag:ident)?
            |$c:ident $(, $stream:ident)* $(; $($event:ident),+)?| $body:block
    )*) => {
        pub(super) const CASES: &[Case] = &[$(Case {
            name: $name,
            rule: $rule.trim_ascii_start(),
            source: sources::$source,
            calls: &[$(stringify!($call)),*],
            needs: &[$($($need),*)?],
            alone: cases!(@is alone $($flag)?),
            misuse: cases!(@is misuse $($flag)?),
            check: |$c: &Cuda<'_>| {
                $(let $stream = $c.stream();)*
                $($(let $event = $c.mark();)+)?
                $body
            },
        }),*];
    };
    (@is alone alone) => { true };
    (@is misuse misuse) => { true };
    (@is $flag:ident $($other:ident)?) => { false };
}

macro_rules! groups {
    ($($group:ident)*) => {
        $(mod $group;)*
        const GROUPS: &[&[Case]] = &[$($group::CASES),*];
    };
}

groups! {
    versions devices errors allocation pointers pinned advice attributes prefetch
    batch residency host_access streams events stream_pools pools pools_managed copies
    memset modules launch capture graphs by_name several_devices migration system_memory sticky
}

mod counting;
mod sources;

use crate::Need::*;
use crate::call::Attribute::*;
use crate::call::{
    At, Called, Calls, Code, Cuda, LEGACY, Memory, NOT_READY, PER_THREAD, Place, Pool, Shape, Span,
    Stream, code_of, counter, mode, ok, status,
};
use crate::{Case, Value};
use counting::{counted, exactly};
use cuda_um_sys::{self as sys, cudaDeviceAttr as Attr, cudaMemPoolAttr as PoolAttr};
use std::ops::Range;
use std::sync::atomic::Ordering;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
/// Device 0.
const DEVICE: Place = Place::device(0);
const HOST: Place = Place::HOST;
/// What attributes of ranges give: the host, and no place.
const CPU: i32 = -1;
const NONE: i32 = -2;

macro_rules! numbers {
    ($kind:ty; $($name:ident $value:expr;)*) => { $(const $name: $kind = $value;)* };
}

// Codes.
numbers! { Code;
    SUCCESS Code::SUCCESS;
    INVALID_VALUE Code(1, "");
    OUT_OF_MEMORY Code(2, "");
    INVALID_COPY_DIRECTION Code(21, "");
    INVALID_DEVICE Code(101, "");
    PEER_UNSUPPORTED Code(217, "");
    INVALID_HANDLE Code(400, "");
    NOT_FOUND Code(500, "");
    ILLEGAL_ADDRESS Code(700, "");
    PEER_ALREADY_ENABLED Code(704, "");
    PEER_NOT_ENABLED Code(705, "");
    ALREADY_REGISTERED Code(712, "");
    NOT_REGISTERED Code(713, "");
    MISALIGNED_ADDRESS Code(716, "");
    NOT_SUPPORTED Code(801, "");
    CAPTURE_UNSUPPORTED Code(900, "");
    CAPTURE_INVALIDATED Code(901, "");
    CAPTURE_MERGE Code(902, "");
    CAPTURE_UNMATCHED Code(903, "");
    CAPTURE_UNJOINED Code(904, "");
    CAPTURE_ISOLATION Code(905, "");
    CAPTURE_IMPLICIT Code(906, "");
    CAPTURED_EVENT Code(907, "");
    CAPTURE_WRONG_THREAD Code(908, "");
    UPDATE_FAILURE Code(910, "");
}

// `cudaMemoryAdvise`, and `cudaMemcpyKind`.
numbers! { u32;
    SET_READ_MOSTLY 1;
    UNSET_READ_MOSTLY 2;
    SET_PREFERRED 3;
    UNSET_PREFERRED 4;
    SET_ACCESSED_BY 5;
    UNSET_ACCESSED_BY 6;
    HOST_TO_HOST 0;
    HOST_TO_DEVICE 1;
    DEVICE_TO_HOST 2;
    DEVICE_TO_DEVICE 3;
    DEFAULT 4;
}

/// All cases, in the order in which they run.
pub fn all() -> impl Iterator<Item = &'static Case> {
    GROUPS.iter().copied().flatten()
}
