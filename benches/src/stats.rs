//! Medians and spread.

use serde::{Deserialize, Serialize};

/// Statistics of some numbers. There is no mean, because one slow sample distorts it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stats {
    /// The number of values.
    pub count: usize,
    /// The smallest.
    pub min: f64,
    /// A quarter of the values is below.
    pub lower_quartile: f64,
    /// Half of the values is below.
    pub median: f64,
    /// A quarter of the values is above.
    pub upper_quartile: f64,
    /// The largest.
    pub max: f64,
}

impl Stats {
    /// `None` if there are no numbers.
    pub fn of(numbers: &[f64]) -> Option<Self> {
        let mut sorted = numbers.to_vec();
        sorted.sort_by(f64::total_cmp);
        Some(Self {
            count: sorted.len(),
            min: *sorted.first()?,
            lower_quartile: quantile(&sorted, 0.25),
            median: quantile(&sorted, 0.5),
            upper_quartile: quantile(&sorted, 0.75),
            max: *sorted.last()?,
        })
    }

    /// Half the distance of the quartiles, relative to the median: 0.02 means "± 2 %".
    pub fn spread(&self) -> f64 {
        if self.median == 0.0 {
            return 0.0;
        }
        (self.upper_quartile - self.lower_quartile) / 2.0 / self.median
    }
}

/// Interpolates linearly between two numbers.
fn quantile(sorted: &[f64], part: f64) -> f64 {
    let at = part * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    below + (above - below) * at.fract()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_nothing() {
        assert_eq!(Stats::of(&[]), None);
    }

    #[test]
    fn of_one() {
        let stats = Stats::of(&[3.0]).unwrap();
        assert_eq!((stats.min, stats.median, stats.max), (3.0, 3.0, 3.0));
        assert_eq!(stats.spread(), 0.0);
    }

    #[test]
    fn in_any_order() {
        let stats = Stats::of(&[5.0, 1.0, 4.0, 2.0, 3.0]).unwrap();
        assert_eq!(
            [
                stats.min,
                stats.lower_quartile,
                stats.median,
                stats.upper_quartile,
                stats.max
            ],
            [1.0, 2.0, 3.0, 4.0, 5.0]
        );
        assert!((stats.spread() - 1.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn the_middle_of_two() {
        assert_eq!(Stats::of(&[1.0, 2.0]).unwrap().median, 1.5);
    }

    #[test]
    fn zeros_have_no_spread() {
        assert_eq!(Stats::of(&[0.0, 0.0]).unwrap().spread(), 0.0);
    }
}
