//! The operations of a step: the same sequence for every contender.

use crate::measurements::measurement::{KIB, MIB};
use anyhow::Result;
use std::fmt::Write as _;

/// Temporaries, some of which are copies of slices.
const TEMPORARIES: usize = 300;
/// Places for live temporaries: even ones belong to the first stream, odd ones to the second.
pub(super) const SLOTS: usize = 64;
pub(super) const STREAMS: usize = 2;
/// Consecutive temporaries of one stream.
const RUN: usize = 10;
/// Sizes in elements: from 4 KiB in octaves up to 4 MiB.
const SMALLEST: usize = 4 * KIB / size_of::<f32>();
const LARGEST: usize = 4 * MIB / size_of::<f32>();
const OCTAVES: u64 = 11;
/// Of the pseudo-random sizes: with this seed, the sizes range from the smallest to the largest.
const SEED: u64 = 5;
/// The slices that are copied in, by the number of the temporary. The first one stays to the end, and is checked.
const SLICES: [(usize, usize); 3] = [(20, MIB), (120, 256 * KIB), (220, 4 * KIB)];
/// The elements of the checked slice.
pub(super) const CHECKED: usize = SLICES[0].1 / size_of::<f32>();

/// One operation. A temporary belongs to the stream of its slot: there it is allocated, used and freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    /// A new temporary with undefined contents.
    Allocate {
        slot: usize,
        len: usize,
    },
    /// A new temporary with the contents of a slice.
    Fill {
        slot: usize,
        len: usize,
    },
    /// A kernel multiplies the temporary.
    Scale {
        slot: usize,
    },
    /// Reads the first element, and waits for it.
    Read {
        slot: usize,
    },
    Free {
        slot: usize,
    },
}

impl Op {
    pub(super) fn slot(self) -> usize {
        match self {
            Self::Allocate { slot, .. } | Self::Fill { slot, .. } => slot,
            Self::Scale { slot } | Self::Read { slot } | Self::Free { slot } => slot,
        }
    }
}

/// A contender.
pub(super) trait Worker {
    /// Does one step. `source` has the slices, which all begin at its start; `read` gets the first elements of the checked temporary.
    fn step(&mut self, plan: &Plan, source: &[f32], read: &mut [f32]) -> Result<()>;
    /// Waits for all work.
    fn finish(&mut self) -> Result<()>;
}

/// A contender that does the operations one by one.
pub(super) trait Operations {
    fn allocate(&mut self, slot: usize, len: usize) -> Result<()>;
    fn fill(&mut self, slot: usize, source: &[f32]) -> Result<()>;
    fn scale(&mut self, slot: usize) -> Result<()>;
    /// Reads the first elements, as many as the target has.
    fn read(&mut self, slot: usize, target: &mut [f32]) -> Result<()>;
    fn free(&mut self, slot: usize) -> Result<()>;
    fn finish(&mut self) -> Result<()>;
}

impl<W: Operations> Worker for W {
    fn step(&mut self, plan: &Plan, source: &[f32], read: &mut [f32]) -> Result<()> {
        plan.ops.iter().try_for_each(|op| match *op {
            Op::Allocate { slot, len } => self.allocate(slot, len),
            Op::Fill { slot, len } => self.fill(slot, &source[..len]),
            Op::Scale { slot } => self.scale(slot),
            Op::Read { slot } => self.read(slot, read),
            Op::Free { slot } => self.free(slot),
        })
    }

    fn finish(&mut self) -> Result<()> {
        Operations::finish(self)
    }
}

/// A step.
pub(super) struct Plan {
    pub(super) ops: Vec<Op>,
    /// Kernels that multiply the checked temporary.
    pub(super) scaled: i32,
    /// Sum of the sizes of all temporaries.
    pub(super) bytes: usize,
}

impl Plan {
    /// The plan; it is always the same.
    pub(super) fn new() -> Self {
        let mut making = Making {
            random: SEED,
            ..Making::default()
        };
        for number in 0..TEMPORARIES {
            making.temporary(number);
        }
        let checked = making.checked.unwrap_or_default();
        making.ops.push(Op::Read { slot: checked });
        making.ops.push(Op::Free { slot: checked });
        let live = making.live.concat();
        making
            .ops
            .extend(live.iter().map(|&slot| Op::Free { slot }));
        let sizes = making.ops.iter().map(|op| match op {
            Op::Allocate { len, .. } | Op::Fill { len, .. } => len * size_of::<f32>(),
            _ => 0,
        });
        let scales = making.ops.iter();
        Self {
            bytes: sizes.sum(),
            scaled: scales
                .filter(|op| **op == Op::Scale { slot: checked })
                .count() as i32,
            ops: making.ops,
        }
    }

    /// The operations as text for peers: for each a letter, the slot, and the number of elements or 0.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for op in &self.ops {
            let (letter, slot, len) = match *op {
                Op::Allocate { slot, len } => ('a', slot, len),
                Op::Fill { slot, len } => ('c', slot, len),
                Op::Scale { slot } => ('k', slot, 0),
                Op::Read { slot } => ('r', slot, 0),
                Op::Free { slot } => ('f', slot, 0),
            };
            let _ = write!(text, "{letter} {slot} {len} ");
        }
        text.truncate(text.trim_end().len());
        text
    }
}

/// A plan in the making.
#[derive(Default)]
struct Making {
    ops: Vec<Op>,
    /// Slots of live temporaries of each stream, without the checked one.
    live: [Vec<usize>; STREAMS],
    checked: Option<usize>,
    random: u64,
}

impl Making {
    /// Adds a temporary and its kernels. If its stream has no free slot, another temporary is freed before.
    fn temporary(&mut self, number: usize) {
        let stream = number / RUN % STREAMS;
        let slot = self.slot(stream);
        let slice = SLICES.iter().position(|(at, _)| *at == number);
        let op = match slice {
            Some(slice) => Op::Fill {
                slot,
                len: SLICES[slice].1 / size_of::<f32>(),
            },
            None => Op::Allocate {
                slot,
                len: self.len(),
            },
        };
        self.ops.push(op);
        match slice {
            Some(0) => self.checked = Some(slot),
            _ => self.live[stream].push(slot),
        }
        // Two kernels for three temporaries: one for a new temporary, one for any; every 20th of these for the checked one.
        let scaled = match (number % 3, self.checked) {
            (0, _) => slot,
            (1, Some(checked)) if number % 60 == 31 => checked,
            (1, _) => {
                let any = self.below(self.live[stream].len() as u64) as usize;
                self.live[stream][any]
            }
            _ => return,
        };
        self.ops.push(Op::Scale { slot: scaled });
    }

    /// A free slot of a stream.
    fn slot(&mut self, stream: usize) -> usize {
        let is_free =
            |slot: &usize| !self.live[stream].contains(slot) && self.checked != Some(*slot);
        if let Some(slot) = (stream..SLOTS).step_by(STREAMS).find(is_free) {
            return slot;
        }
        let any = self.below(self.live[stream].len() as u64) as usize;
        let slot = self.live[stream].swap_remove(any);
        self.ops.push(Op::Free { slot });
        slot
    }

    /// A number of elements. Most are small: the smallest of three octaves; half of the sizes are powers of two.
    fn len(&mut self) -> usize {
        let octaves = [(); 3].map(|()| self.below(OCTAVES));
        let octave = octaves.into_iter().min().unwrap_or(0);
        let power = SMALLEST << octave;
        match self.below(2) {
            0 => power,
            _ => (power + self.below(power as u64) as usize).min(LARGEST),
        }
    }

    /// A pseudo-random number below a limit.
    fn below(&mut self, limit: u64) -> u64 {
        let (factor, add) = (6_364_136_223_846_793_005, 1_442_695_040_888_963_407);
        self.random = self.random.wrapping_mul(factor).wrapping_add(add);
        (self.random >> 33) % limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers that docs/measuring.md states.
    #[test]
    fn a_step_is_what_the_documentation_says() {
        let plan = Plan::new();
        let count = |kind: fn(&Op) -> bool| plan.ops.iter().filter(|op| kind(op)).count();
        assert_eq!(count(|op| matches!(op, Op::Allocate { .. })), 297);
        assert_eq!(count(|op| matches!(op, Op::Fill { .. })), 3);
        assert_eq!(count(|op| matches!(op, Op::Scale { .. })), 200);
        assert_eq!(count(|op| matches!(op, Op::Read { .. })), 1);
        assert_eq!(count(|op| matches!(op, Op::Free { .. })), 300);
        let (mut live, mut most, mut sizes) = (vec![None; SLOTS], (0, 0), Vec::new());
        for op in &plan.ops {
            match *op {
                Op::Allocate { slot, len } | Op::Fill { slot, len } => {
                    assert_eq!(live[slot].replace(len * 4), None);
                    sizes.push(len * 4);
                }
                Op::Scale { slot } | Op::Read { slot } => assert!(live[slot].is_some()),
                Op::Free { slot } => assert!(live[slot].take().is_some()),
            }
            most.0 = most.0.max(live.iter().flatten().count());
            most.1 = most.1.max(live.iter().flatten().sum::<usize>());
        }
        assert!(live.iter().all(Option::is_none));
        sizes.sort_unstable();
        let told = (sizes[0], sizes[150], sizes[299]);
        assert_eq!((plan.bytes, plan.scaled), (37_548_484, 5));
        assert_eq!(most, (64, 14_047_904), "live at a time, and bytes");
        assert_eq!(told, (4 * KIB, 16 * KIB, 4 * MIB));
    }

    #[test]
    fn the_text_has_every_operation() {
        let (plan, text) = (Plan::new(), Plan::new().text());
        let words: Vec<_> = text.split(' ').collect();
        assert_eq!(words.len(), 3 * plan.ops.len());
        assert!(text.starts_with("a 0 ") && words.contains(&"r"));
    }
}
