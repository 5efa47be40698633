//! What can happen to buffers.

use crate::resource::cache::properties::world::{BUFFERS, PLACES, STREAMS};
use proptest::prelude::*;

/// One call of the library. Numbers are of buffers, streams and `PLACES`.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Kernel {
        buffer: usize,
        stream: usize,
        writes: bool,
    },
    Prefetch {
        buffer: usize,
        stream: usize,
        place: usize,
        /// All of the buffer, or some of its blocks, of which the last one may be cut short.
        blocks: Option<(usize, usize, bool)>,
        is_unsure: bool,
    },
    Guard {
        buffer: usize,
        writes: bool,
        /// It lives until `EndGuard`.
        lives: bool,
    },
    /// Of the guards that live.
    EndGuard {
        guard: usize,
    },
    Advise {
        buffer: usize,
    },
    ReadMostly {
        buffer: usize,
        set: bool,
    },
    /// Asks the driver, which says where each block is.
    Ask {
        buffer: usize,
        places: [Option<usize>; 4],
        is_unsure: bool,
    },
    /// Its answer arrives.
    Answer {
        buffer: usize,
    },
    StreamWaits {
        stream: usize,
        on: usize,
    },
    Synchronize {
        stream: usize,
    },
    /// The buffer is dropped, and another one has its memory and its notes.
    Replace {
        buffer: usize,
    },
}

/// The library cannot see that all other uses of the buffer come before.
fn is_unsure() -> impl Strategy<Value = bool> {
    prop::bool::weighted(0.1)
}

pub(super) fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let (buffer, stream, place) = (0..BUFFERS, 0..STREAMS.len(), 0..PLACES.len());
    let some = prop::option::of((0..4_usize, 1..4_usize, any::<bool>()));
    let kernel =
        (buffer.clone(), stream.clone(), any::<bool>()).prop_map(|(buffer, stream, writes)| {
            Step::Kernel {
                buffer,
                stream,
                writes,
            }
        });
    let prefetch = (
        buffer.clone(),
        stream.clone(),
        place.clone(),
        some,
        is_unsure(),
    )
        .prop_map(
            |(buffer, stream, place, blocks, is_unsure)| Step::Prefetch {
                buffer,
                stream,
                place,
                blocks,
                is_unsure,
            },
        );
    let guard =
        (buffer.clone(), any::<bool>(), any::<bool>()).prop_map(|(buffer, writes, lives)| {
            Step::Guard {
                buffer,
                writes,
                lives,
            }
        });
    let places = prop::array::uniform4(prop::option::weighted(0.8, place));
    let step = prop_oneof![
        4 => kernel,
        8 => prefetch,
        2 => guard,
        2 => (0..3_usize).prop_map(|guard| Step::EndGuard { guard }),
        1 => buffer.clone().prop_map(|buffer| Step::Advise { buffer }),
        1 => (buffer.clone(), any::<bool>()).prop_map(|(buffer, set)| Step::ReadMostly { buffer, set }),
        2 => (buffer.clone(), places, is_unsure()).prop_map(|(buffer, places, is_unsure)| Step::Ask { buffer, places, is_unsure }),
        2 => buffer.clone().prop_map(|buffer| Step::Answer { buffer }),
        3 => (stream.clone(), stream.clone()).prop_map(|(stream, on)| Step::StreamWaits { stream, on }),
        1 => stream.prop_map(|stream| Step::Synchronize { stream }),
        1 => buffer.prop_map(|buffer| Step::Replace { buffer }),
    ];
    prop::collection::vec(step, 1..most)
}

/// Of one stream, of which the library knows all there is to know.
pub(super) fn on_one_stream() -> impl Strategy<Value = Step> {
    let (buffer, place) = (0..BUFFERS, 0..PLACES.len());
    let some = prop::option::of((0..4_usize, 1..4_usize, any::<bool>()));
    prop_oneof![
        (buffer.clone(), any::<bool>()).prop_map(move |(buffer, writes)| Step::Kernel {
            buffer,
            stream: 0,
            writes
        }),
        (buffer.clone(), place, some).prop_map(move |(buffer, place, blocks)| Step::Prefetch {
            buffer,
            stream: 0,
            place,
            blocks,
            is_unsure: false
        }),
        (buffer.clone(), any::<bool>()).prop_map(move |(buffer, writes)| Step::Guard {
            buffer,
            writes,
            lives: false
        }),
        buffer.clone().prop_map(|buffer| Step::Advise { buffer }),
        buffer.prop_map(|buffer| Step::Replace { buffer }),
    ]
}
