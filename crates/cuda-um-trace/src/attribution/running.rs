//! Which of many intervals are running, for times that only grow.

pub(super) struct Running {
    /// `(start, end, index)` by start.
    waiting: std::iter::Peekable<std::vec::IntoIter<(u64, u64, usize)>>,
    active: Vec<(u64, u64, usize)>,
    first_end: u64,
}

impl Running {
    pub(super) fn new(intervals: impl Iterator<Item = (u64, u64, usize)>) -> Self {
        let mut waiting: Vec<_> = intervals.collect();
        waiting.sort_unstable_by_key(|&(start, _, index)| (start, index));
        Self {
            waiting: waiting.into_iter().peekable(),
            active: Vec::new(),
            first_end: u64::MAX,
        }
    }

    /// Those that run at a time, borders included; in the order in which they began.
    pub(super) fn at(&mut self, time: u64) -> impl DoubleEndedIterator<Item = usize> + '_ {
        while let Some(next) = self.waiting.next_if(|&(start, ..)| start <= time) {
            self.first_end = self.first_end.min(next.1);
            self.active.push(next);
        }
        if self.first_end < time {
            self.active.retain(|&(_, end, _)| end >= time);
            let ends = self.active.iter().map(|&(_, end, _)| end);
            self.first_end = ends.min().unwrap_or(u64::MAX);
        }
        self.active.iter().map(|&(.., index)| index)
    }
}
