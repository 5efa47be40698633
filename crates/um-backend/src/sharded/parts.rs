//! The parts of a range that the shards have.

use std::ops::Range;

use cuda_um::{HintOutcome, together};

use super::{Shard, Sharded};
use crate::dtype::Element;
use crate::error::Result;

/// From so many bytes on, the copies of several shards run on threads: below it a thread takes longer to begin than the copy.
const THREADS_FROM: usize = 1 << 20;

/// The part of a range that a shard has.
#[derive(Debug, Clone)]
pub(super) struct Part {
    /// The shard's number.
    pub number: usize,
    /// Elements of the shard.
    pub inside: Range<usize>,
    /// The same elements, counted from the start of the range.
    pub outside: Range<usize>,
}

impl<T: Element> Sharded<T> {
    /// The parts of a range that was checked, in order; none is empty.
    pub(super) fn parts(&self, range: Range<usize>) -> Vec<Part> {
        let part = |(number, shard): (usize, &Shard<T>)| {
            let first = shard.rows.start * self.row_len;
            let start = range.start.max(first);
            let end = range.end.min(shard.rows.end * self.row_len);
            (start < end).then(|| Part {
                number,
                inside: start - first..end - first,
                outside: start - range.start..end - range.start,
            })
        };
        let shards = self.shards.iter().enumerate();
        shards.filter_map(part).collect()
    }

    /// Calls `work` for each part of a range, in order. Returns the first error, which names the shard.
    pub(super) fn each_part(
        &mut self,
        range: Range<usize>,
        mut work: impl FnMut(&mut Shard<T>, Part) -> Result<()>,
    ) -> Result<()> {
        first_error(self.parts(range).into_iter().map(|part| {
            let number = part.number;
            let shard = &mut self.shards[number];
            work(shard, part).map_err(|cause| shard.failed(number, cause))
        }))
    }
}

/// Runs the copies of several shards; large ones run at the same time.
pub(super) fn run<J: Send>(
    jobs: Vec<J>,
    bytes: usize,
    copy: impl Fn(J) -> Result<()> + Sync,
) -> Result<()> {
    match bytes < THREADS_FROM {
        true => first_error(jobs.into_iter().map(copy)),
        false => first_error(together(jobs, copy)),
    }
}

/// Takes all results, and returns the first error.
pub(super) fn first_error(results: impl IntoIterator<Item = Result<()>>) -> Result<()> {
    results.into_iter().fold(Ok(()), Result::and)
}

/// The outcome of hints: the first that was not applied. Takes all results, and returns the first error.
pub(super) fn outcome(results: impl Iterator<Item = Result<HintOutcome>>) -> Result<HintOutcome> {
    let results: Vec<_> = results.collect();
    let mut results = results.into_iter();
    results.try_fold(HintOutcome::Applied, |sum, next| match (sum, next?) {
        (HintOutcome::Applied, next) => Ok(next),
        (sum, _) => Ok(sum),
    })
}
