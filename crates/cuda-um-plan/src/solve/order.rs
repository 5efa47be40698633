//! A set of small numbers that finds its largest and smallest ones.

/// 64 numbers in a word, and a bit for each word that is not empty one level above.
#[derive(Clone, Debug, Default)]
pub(crate) struct Order {
    levels: Vec<Vec<u64>>,
}

impl Order {
    /// For numbers below `end`.
    pub(crate) fn new(end: usize) -> Self {
        let mut levels = Vec::new();
        let mut length = end;
        loop {
            length = length.div_ceil(64).max(1);
            levels.push(vec![0; length]);
            if length == 1 {
                return Self { levels };
            }
        }
    }

    pub(crate) fn insert(&mut self, mut number: usize) {
        for level in &mut self.levels {
            level[number / 64] |= 1 << (number % 64);
            number /= 64;
        }
    }

    pub(crate) fn remove(&mut self, mut number: usize) {
        for level in &mut self.levels {
            level[number / 64] &= !(1 << (number % 64));
            if level[number / 64] != 0 {
                return;
            }
            number /= 64;
        }
    }

    /// All numbers, the smallest first.
    pub(crate) fn up(&self) -> impl Iterator<Item = usize> {
        std::iter::successors(self.from(0), |&last| self.from(last + 1))
    }

    /// All numbers, the largest first.
    pub(crate) fn down(&self) -> impl Iterator<Item = usize> {
        let end = self.levels[0].len() * 64;
        std::iter::successors(self.below(end), |&last| self.below(last))
    }

    /// The smallest number that is not below `at`.
    fn from(&self, mut at: usize) -> Option<usize> {
        for (height, level) in self.levels.iter().enumerate() {
            let word = *level.get(at / 64)? & (u64::MAX << (at % 64));
            if word != 0 {
                let found = at / 64 * 64 + word.trailing_zeros() as usize;
                let first = |level: &Vec<u64>, word: usize| level[word].trailing_zeros() as usize;
                let below = self.levels[..height].iter().rev();
                return Some(below.fold(found, |word, level| word * 64 + first(level, word)));
            }
            at = at / 64 + 1;
        }
        None
    }

    /// The largest number below `end`.
    fn below(&self, mut end: usize) -> Option<usize> {
        for (height, level) in self.levels.iter().enumerate() {
            let at = end.checked_sub(1)?;
            let word = level[at / 64] & (u64::MAX >> (63 - at % 64));
            if word != 0 {
                let last = |word: u64| 63 - word.leading_zeros() as usize;
                let found = at / 64 * 64 + last(word);
                let below = self.levels[..height].iter().rev();
                return Some(below.fold(found, |word, level| word * 64 + last(level[word])));
            }
            end = at / 64;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::Order;
    use std::collections::BTreeSet;

    #[test]
    fn it_is_a_set() {
        for end in [1, 63, 64, 65, 4096, 5000, 300_000] {
            let (mut order, mut set) = (Order::new(end), BTreeSet::new());
            let mut number = 1;
            for round in 0..600 {
                number = (number * 48_271 + round) % 2_147_483_647;
                if round % 3 == 2 {
                    order.remove(number % end);
                    set.remove(&(number % end));
                } else {
                    order.insert(number % end);
                    set.insert(number % end);
                }
                if round % 50 == 0 {
                    assert!(order.up().eq(set.iter().copied()), "{end}");
                    assert!(order.down().eq(set.iter().rev().copied()), "{end}");
                }
            }
        }
    }
}
