//! Kernels that the host has not seen to complete, for devices without concurrent managed access.

use std::collections::HashMap;

use super::completion::Completion;

/// Kernels of all streams. Empty if devices have concurrent managed access.
#[derive(Debug, Default)]
pub(super) struct Kernels {
    streams: HashMap<usize, Launched>,
}

/// Kernels of one stream.
#[derive(Debug, Default)]
struct Launched {
    /// The number of the last kernel enqueued.
    kernel: u64,
    /// The host has seen all work up to this number complete.
    observed: u64,
    /// At this number the stream waits for that number of another stream.
    after: Vec<(u64, usize, u64)>,
}

impl Kernels {
    /// A kernel was enqueued.
    pub(super) fn add(&mut self, done: &Completion) {
        self.streams.entry(done.stream).or_default().kernel = done.seq;
    }

    /// The work `done` waits for work of other streams.
    pub(super) fn add_waits(&mut self, done: &Completion, waits: Vec<(usize, u64)>) {
        let launched = self.streams.entry(done.stream).or_default();
        let waits = waits.into_iter();
        launched
            .after
            .extend(waits.map(|(other, seq)| (done.seq, other, seq)));
    }

    /// The host has seen this work complete, and so all work that it waited for.
    pub(super) fn observe(&mut self, completion: &Completion) {
        let mut seen = vec![(completion.stream, completion.seq)];
        while let Some((stream, seq)) = seen.pop() {
            let Some(launched) = self.streams.get_mut(&stream) else {
                continue;
            };
            launched.observed = launched.observed.max(seq);
            let observed = launched.observed;
            launched.after.retain(|(at, other, other_seq)| {
                let done = *at <= observed;
                if done {
                    seen.push((*other, *other_seq));
                }
                !done
            });
        }
    }

    /// Whether a kernel is in flight on one of the streams that `may_use` accepts.
    pub(super) fn any_in_flight(&self, may_use: impl Fn(usize) -> bool) -> bool {
        self.streams
            .iter()
            .any(|(stream, launched)| may_use(*stream) && launched.kernel > launched.observed)
    }
}
