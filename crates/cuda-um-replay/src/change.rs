//! What is to be done otherwise than recorded.

use cuda_um::Advice;

/// What a replay does otherwise than the recorded program.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Change {
    /// Prefetch the buffer to the device before each launch that uses it, and to the host before each guard.
    PrefetchBeforeUse,
    /// Leave the recorded prefetches out; also those by which the library populates new buffers.
    NoPrefetch,
    /// Leave the recorded advice out.
    NoAdvice,
    /// Give this advice when the buffer is made.
    Advise(Advice),
    /// Put the buffer into pinned memory that the device has mapped.
    Mapped,
}

/// The changes of a replay: each for the buffers of one name, or for all.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changes {
    list: Vec<(Option<String>, Change)>,
}

impl Changes {
    pub(crate) fn push(&mut self, buffer: Option<&str>, change: Change) {
        self.list.push((buffer.map(str::to_owned), change));
    }

    /// The names that changes are meant for.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.list.iter().filter_map(|(name, _)| name.as_deref())
    }

    /// The changes for a buffer.
    pub(crate) fn of<'a>(&'a self, buffer: &'a str) -> impl Iterator<Item = &'a Change> {
        self.list
            .iter()
            .filter(move |(name, _)| name.as_deref().is_none_or(|name| name == buffer))
            .map(|(_, change)| change)
    }

    pub(crate) fn has(&self, buffer: &str, change: &Change) -> bool {
        self.of(buffer).any(|found| found == change)
    }
}
