//! Changes of the recorded program.

use cuda_um::Advice;

/// A difference between the replay and the recorded program.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Change {
    /// Prefetch the buffer to the device before each launch that uses it, and to the host before each guard.
    PrefetchBeforeUse,
    /// Skip the recorded prefetches, including those by which the library populates new buffers.
    NoPrefetch,
    /// Skip the recorded advice.
    NoAdvice,
    /// Set this advice when the buffer is allocated.
    Advise(Advice),
    /// Put the buffer into pinned memory that the device has mapped.
    Mapped,
}

/// The changes of a replay. Each is for the buffers of one name, or for all.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changes {
    list: Vec<(Option<String>, Change)>,
}

impl Changes {
    pub(crate) fn push(&mut self, buffer: Option<&str>, change: Change) {
        self.list.push((buffer.map(str::to_owned), change));
    }

    /// The buffer names of the changes.
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
