//! What happened to equal parts of memory, kept for runs of parts that had the same: a record changes few runs, however large it is.

use std::collections::BTreeMap;
use std::ops::Range;

/// Values of numbered parts.
#[derive(Debug)]
pub(crate) struct Runs<T> {
    /// By first part: the part behind the last one, and the value of each.
    runs: BTreeMap<u64, (u64, T)>,
}

impl<T: Clone> Runs<T> {
    pub(crate) fn new() -> Self {
        Self {
            runs: BTreeMap::new(),
        }
    }

    /// Changes the value of each part of a range, a run at a time: the number of parts, and their value, if they have one.
    pub(crate) fn change(
        &mut self,
        range: Range<u64>,
        mut change: impl FnMut(u64, &mut Option<T>),
    ) {
        if range.is_empty() {
            return;
        }
        self.cut(range.start);
        self.cut(range.end);
        let inside = self.runs.range(range.clone());
        let begins: Vec<u64> = inside.map(|(&begin, _)| begin).collect();
        let mut reached = range.start;
        let mut run = |runs: &mut BTreeMap<_, _>, begin: u64, end: u64, mut value: Option<T>| {
            change(end - begin, &mut value);
            if let Some(value) = value {
                runs.insert(begin, (end, value));
            }
        };
        for begin in begins {
            if reached < begin {
                run(&mut self.runs, reached, begin, None);
            }
            if let Some((end, value)) = self.runs.remove(&begin) {
                run(&mut self.runs, begin, end, Some(value));
                reached = end;
            }
        }
        if reached < range.end {
            run(&mut self.runs, reached, range.end, None);
        }
    }

    /// All runs with a value, upwards.
    pub(crate) fn into_runs(self) -> impl Iterator<Item = (Range<u64>, T)> {
        let runs = self.runs.into_iter();
        runs.map(|(begin, (end, value))| (begin..end, value))
    }

    /// Makes a run end here, if one goes on.
    fn cut(&mut self, at: u64) {
        let Some((_, (end, value))) = self.runs.range_mut(..at).next_back() else {
            return;
        };
        if *end > at {
            let rest = (*end, value.clone());
            *end = at;
            self.runs.insert(at, rest);
        }
    }
}

/// The parts of a size that a range of bytes touches, and how many of the bytes lie in each: at most three runs.
pub(crate) fn parts(bytes: Range<u64>, size: u64) -> impl Iterator<Item = (Range<u64>, u64)> {
    let (first, behind) = (bytes.start / size, bytes.end.div_ceil(size));
    let in_part = |part: u64| {
        let end = bytes.end.min((part + 1).saturating_mul(size));
        end.saturating_sub(bytes.start.max(part * size))
    };
    let last = behind.saturating_sub(1).max(first);
    let runs = [
        (first..first + 1, in_part(first)),
        (first + 1..last, size),
        (last.max(first + 1)..behind, in_part(last)),
    ];
    runs.into_iter()
        .filter(|(parts, bytes)| !parts.is_empty() && *bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::{Runs, parts};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// Runs are what a map of every single part would be.
        #[test]
        fn like_single_parts(changes in proptest::collection::vec((0_u64..40, 0_u64..12, 0_u8..4), 0..30)) {
            let mut runs = Runs::new();
            let mut single: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
            for (begin, count, what) in changes {
                let mut seen = 0;
                runs.change(begin..begin + count, |parts, value: &mut Option<Vec<u8>>| {
                    seen += parts;
                    match what {
                        0 => *value = None,
                        _ => value.get_or_insert_default().push(what),
                    }
                });
                prop_assert_eq!(seen, count);
                for part in begin..begin + count {
                    match what {
                        0 => drop(single.remove(&part)),
                        _ => single.entry(part).or_default().push(what),
                    }
                }
            }
            let all: BTreeMap<u64, Vec<u8>> = runs
                .into_runs()
                .flat_map(|(parts, value)| parts.map(move |part| (part, value.clone())))
                .collect();
            prop_assert_eq!(all, single);
        }

        /// Every byte lies in the part that it is said to lie in, and in no other.
        #[test]
        fn every_byte_has_its_part(begin in 0_u64..50, count in 0_u64..50, size in 1_u64..12) {
            let mut single: BTreeMap<u64, u64> = BTreeMap::new();
            for byte in begin..begin + count {
                *single.entry(byte / size).or_default() += 1;
            }
            let runs: Vec<_> = parts(begin..begin + count, size).collect();
            prop_assert!(runs.len() <= 3);
            let all = runs.into_iter().flat_map(|(parts, bytes)| parts.map(move |part| (part, bytes)));
            prop_assert_eq!(all.collect::<Vec<_>>(), single.into_iter().collect::<Vec<_>>());
        }
    }
}
