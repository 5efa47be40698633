//! Free places of the arena.

use crate::Slots;

/// Before the first step of the pass.
pub(crate) const START: i64 = -1;

/// A free place, and the step at whose end it became free.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Hole {
    pub first: u64,
    pub count: u64,
    pub freed: i64,
}

impl Hole {
    fn end(&self) -> u64 {
        self.first + self.count
    }
}

/// The free places in order of their addresses. Adjacent places stay apart, because they became free at different times.
#[derive(Clone, Debug, Default)]
pub(crate) struct Holes(Vec<Hole>);

impl Holes {
    pub(crate) fn all(&self) -> &[Hole] {
        &self.0
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn add(&mut self, slots: Slots, freed: i64) {
        if slots.count == 0 {
            return;
        }
        let at = self.0.partition_point(|hole| hole.first < slots.first);
        self.0.insert(
            at,
            Hole {
                first: slots.first,
                count: slots.count,
                freed,
            },
        );
        // A place that is in two pieces with one time is one place again.
        self.join(at);
        if at > 0 {
            self.join(at - 1);
        }
    }

    fn join(&mut self, at: usize) {
        if let (Some(&one), Some(&next)) = (self.0.get(at), self.0.get(at + 1))
            && one.end() == next.first
            && one.freed == next.freed
        {
            self.0[at].count += next.count;
            self.0.remove(at + 1);
        }
    }

    /// A free range of `count` slots that became free before the step `before`: one that fits exactly if there is one, otherwise
    /// the one that has been free for the longest time.
    pub(crate) fn find(&self, count: u64, before: i64) -> Option<Slots> {
        let mut best: Option<(bool, i64, u64)> = None;
        for (index, hole) in self.0.iter().enumerate() {
            let (mut end, mut freed) = (hole.first, START);
            for next in &self.0[index..] {
                if next.first != end || next.freed >= before {
                    break;
                }
                (end, freed) = (next.end(), freed.max(next.freed));
                if end - hole.first >= count {
                    let loose = end - hole.first > count;
                    let found = (loose, freed, hole.first);
                    best = Some(best.map_or(found, |best| best.min(found)));
                    break;
                }
            }
        }
        best.map(|(_, _, first)| Slots { first, count })
    }

    /// Takes a range, which must be free, and returns the last time that a part of it became free.
    pub(crate) fn take(&mut self, slots: Slots) -> i64 {
        let mut freed = START;
        let mut at = self.0.partition_point(|hole| hole.end() <= slots.first);
        while let Some(&hole) = self.0.get(at) {
            if hole.first >= slots.end() {
                break;
            }
            freed = freed.max(hole.freed);
            self.0.remove(at);
            for (first, end) in [(hole.first, slots.first), (slots.end(), hole.end())] {
                if first < end {
                    let count = end - first;
                    let freed = hole.freed;
                    self.0.insert(
                        at,
                        Hole {
                            first,
                            count,
                            freed,
                        },
                    );
                    at += 1;
                }
            }
        }
        freed
    }

    /// The last time that a part of the range became free. The range may have parts that are in use.
    pub(crate) fn freed(&self, slots: Slots) -> i64 {
        let from = self.0.partition_point(|hole| hole.end() <= slots.first);
        let parts = self.0[from..].iter();
        let parts = parts.take_while(|hole| hole.first < slots.end());
        parts.map(|hole| hole.freed).max().unwrap_or(START)
    }
}
