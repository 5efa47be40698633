//! Ranges that are not within the buffer: past its end, reversed, and beyond the limit of a `usize`; and two lengths that are not equal.

use crate::bad_input::world::{Case, LEN, World, cases, run};
use cuda_um::{DeviceBuffer, ErrorKind, Result};
use cuda_um_sim::CudaVersion;
use pollster::block_on;
use std::ops::Bound::{self, Excluded, Included, Unbounded};

type Bounds = (Bound<usize>, Bound<usize>);
type Ranged = fn(&mut World, Bounds) -> Result<()>;
type Offset = fn(&mut World, usize) -> Result<()>;

const END: usize = usize::MAX;
/// The invalid range, and the range that the error names.
const BAD: [(Bounds, [usize; 2]); 9] = [
    ((Included(0), Excluded(LEN + 1)), [0, LEN + 1]),
    ((Included(0), Included(LEN)), [0, LEN + 1]),
    ((Included(LEN + 1), Unbounded), [LEN + 1, LEN]),
    ((Included(LEN + 1), Excluded(LEN + 1)), [LEN + 1, LEN + 1]),
    ((Included(4), Excluded(3)), [4, 3]),
    ((Included(END), Unbounded), [END, LEN]),
    ((Excluded(END), Unbounded), [END, LEN]),
    ((Unbounded, Included(END)), [0, END]),
    ((Excluded(END), Included(END)), [END, END]),
];
/// Offsets at which ten elements do not fit.
const BAD_OFFSETS: [(usize, usize); 4] = [
    (LEN - 9, LEN + 1),
    (LEN + 1, LEN + 11),
    (END - 10, END),
    (END, END),
];

fn made(
    of: &'static str,
    [start, end]: [usize; 2],
    call: impl Fn(&mut World) -> Result<()> + 'static,
) -> Case {
    Case {
        of,
        given: format!("{start}..{end}"),
        kind: ErrorKind::InvalidArgument,
        says: vec![format!(
            "range {start}..{end} is not within the buffer's {LEN} elements"
        )],
        cuda: CudaVersion::V13_0,
        call: Box::new(call),
    }
}

fn ranges(functions: &[(&'static str, Ranged)]) {
    let each = |&(of, call): &(&'static str, Ranged)| {
        BAD.map(|(bounds, named)| made(of, named, move |world| call(world, bounds)))
    };
    run(functions.iter().flat_map(each));
}

fn offsets(functions: &[(&'static str, Offset)]) {
    let each = |&(of, call): &(&'static str, Offset)| {
        BAD_OFFSETS.map(|(offset, end)| made(of, [offset, end], move |world| call(world, offset)))
    };
    run(functions.iter().flat_map(each));
}

macro_rules! of_kinds {
    ($($name:literal $buffer:ident),*) => {$(
        ranges(&[
            (concat!($name, "::view"), |w, range| w.$buffer.view(range).map(drop)),
            (concat!($name, "::view_mut"), |w, range| w.$buffer.view_mut(range).map(drop)),
            (concat!($name, "::host_overwrite"), |w, range| {
                w.$buffer.host_overwrite(range, |_, slots| slots.fill_with(|_| 9))
            }),
            (concat!($name, "::copy_within"), |w, range| w.$buffer.copy_within_on(range, 0, &w.stream)),
        ]);
        run([
            made(concat!($name, "::read_one"), [LEN, LEN + 1], |w| w.$buffer.read_one(LEN).map(drop)),
            made(concat!($name, "::read_one"), [END, END], |w| w.$buffer.read_one(END).map(drop)),
            made(concat!($name, "::write_one"), [LEN, LEN + 1], |w| w.$buffer.write_one(LEN, 9)),
        ]);
        offsets(&[
            (concat!($name, "::copy_from_host_at"), |w, offset| w.$buffer.copy_from_host_at(offset, &[9; 10])),
            (concat!($name, "::copy_to_host_at"), |w, offset| w.$buffer.copy_to_host_at(offset, &mut [9; 10])),
            (concat!($name, "::copy_within"), |w, offset| w.$buffer.copy_within_on(10..20, offset, &w.stream)),
        ]);
        run(cases! {
            concat!($name, "::copy_from_host"), "too short a slice": |w| w.$buffer.copy_from_host(&[5; 999])
                => InvalidArgument, ["copy_from_host: 1000 elements expected, 999 found"];
            concat!($name, "::copy_from_host"), "no slice": |w| w.$buffer.copy_from_host(&[])
                => InvalidArgument, ["copy_from_host: 1000 elements expected, 0 found"];
            concat!($name, "::copy_to_host"), "too long a slice": |w| w.$buffer.copy_to_host(&mut [5; 1001])
                => InvalidArgument, ["copy_to_host: 1000 elements expected, 1001 found"];
            concat!($name, "::copy_from_host_async"), "too long a slice": |w| block_on(w.$buffer.copy_from_host_async(&[5; 1001]))
                => InvalidArgument, ["copy_from_host_async: 1000 elements expected, 1001 found"];
            concat!($name, "::copy_to_host_async"), "too short a slice": |w| block_on(w.$buffer.copy_to_host_async(&mut [5; 1]))
                => InvalidArgument, ["copy_to_host_async: 1000 elements expected, 1 found"];
        });
    )*};
}

/// claim 5
#[test]
fn parts_of_buffers() {
    of_kinds!("UnifiedBuffer" unified, "DeviceBuffer" on_device, "PinnedBuffer" pinned, "RegisteredBuffer" registered, "UnifiedBuffer" mapped);
}

/// claim 5
#[test]
fn parts_of_views_and_copies() {
    ranges(&[
        ("View::slice", |w, range| {
            w.unified.view(..)?.slice(range).map(drop)
        }),
        ("ViewMut::slice", |w, range| {
            w.unified.view_mut(..)?.slice(range).map(drop)
        }),
        ("ViewMut::slice_mut", |w, range| {
            w.unified.view_mut(..)?.slice_mut(range).map(drop)
        }),
        ("Stream::copy_range", |w, range| {
            w.stream.copy_range(&w.on_device, range, &mut w.unified, 0)
        }),
    ]);
    offsets(&[("Stream::copy_range", |w, offset| {
        w.stream
            .copy_range(&w.on_device, 3..13, &mut w.unified, offset)
    })]);
    run([
        made("View::split_at", [0, LEN + 1], |w| {
            w.unified.as_view().split_at(LEN + 1).map(drop)
        }),
        made("ViewMut::split_at", [0, END], |w| {
            w.unified.as_view_mut().split_at(END).map(drop)
        }),
    ]);
    run(cases! {
        "Stream::copy", "a shorter target": |w| w.stream.copy(&w.unified, &mut w.shorter)
            => InvalidArgument, ["copy: 999 elements expected, 1000 found"];
        "Stream::copy", "an empty source": |w| w.stream.copy(&DeviceBuffer::<u32>::zeroed(&w.device, 0)?, &mut w.unified)
            => InvalidArgument, ["copy: 1000 elements expected, 0 found"];
    });
}
