//! The times between two uses of a buffer, in which its bytes may leave the device.

use crate::{Link, Program, Repeat, Role};

/// A buffer between two of its uses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gap {
    /// The first step after the use before. 0 if there is none.
    pub begin: usize,
    /// The step of the next use. In the next pass it is counted from the first step of this one.
    pub until: usize,
    pub kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The contents stay or come back.
    Between,
    /// The contents come for the first time.
    First,
    /// The contents go to their home.
    Last,
}

/// The gaps of a buffer from one write to the next one. Its home becomes current once in them, at most.
#[derive(Clone, Debug)]
pub(super) struct Chain {
    pub bytes: f64,
    pub in_seconds: f64,
    pub out_seconds: f64,
    /// The home is stale at the beginning.
    pub dirty: bool,
    /// Indexes of the gaps.
    pub gaps: std::ops::Range<usize>,
}

/// All gaps of a pass.
#[derive(Debug, Default)]
pub(super) struct Gaps {
    pub chains: Vec<Chain>,
    pub all: Vec<Gap>,
}

/// A use of a buffer: the step, whether it needs the contents, and whether it changes them.
type OneUse = (usize, bool, bool);

impl Gaps {
    pub(super) fn of(program: &Program, link: &Link) -> Self {
        let mut gaps = Self::default();
        let mut uses: Vec<Vec<OneUse>> = vec![Vec::new(); program.buffers.len()];
        for (step, planned) in program.steps.iter().enumerate() {
            for one in &planned.uses {
                let scratch = program.buffers[one.buffer].role == Role::Scratch;
                let begins = scratch && uses[one.buffer].is_empty();
                let (needs, writes) =
                    (one.access.reads() && !begins, one.access.writes() || begins);
                uses[one.buffer].push((step, needs, writes));
            }
        }
        let steps = program.steps.len();
        for (spec, mut uses) in program.buffers.iter().zip(uses) {
            let link = link.of(spec);
            let chain = Chain {
                bytes: spec.bytes as f64,
                in_seconds: link.in_seconds(spec.bytes),
                out_seconds: link.out_seconds(spec.bytes),
                dirty: false,
                gaps: 0..0,
            };
            let cyclic = program.repeat == Repeat::Cyclic && spec.role != Role::Scratch;
            let write = uses.iter().position(|&(.., writes)| writes);
            if cyclic && !uses.is_empty() {
                // Once around, from a write on if there is one.
                let from = write.unwrap_or(0);
                uses.rotate_left(from);
                let first = uses[0];
                let around = uses.len() - from;
                uses[around..].iter_mut().for_each(|one| one.0 += steps);
                uses.push((first.0 + steps, first.1, first.2));
            }
            let ends = program.repeat == Repeat::Once && spec.role == Role::ReadWrite;
            gaps.add(&chain, &uses, cyclic, ends.then_some(steps));
        }
        gaps
    }

    /// The chains of a buffer with these uses, in order. `end`: the results are in the home after the last one of these steps.
    fn add(&mut self, chain: &Chain, uses: &[OneUse], cyclic: bool, end: Option<usize>) {
        let (mut from, mut dirty) = (self.all.len(), false);
        let mut before = None;
        for &(until, needs, writes) in uses {
            let (begin, kind) = match before {
                Some(before) => (before + 1, Kind::Between),
                None => (0, Kind::First),
            };
            if needs && (before.is_some() || !cyclic) {
                self.all.push(Gap { begin, until, kind });
            }
            if writes {
                self.close(chain, from, dirty);
                (from, dirty) = (self.all.len(), true);
            }
            before = Some(until);
        }
        if let (Some(before), Some(until), true) = (before, end, dirty) {
            let begin = before + 1;
            self.all.push(Gap {
                begin,
                until,
                kind: Kind::Last,
            });
        }
        self.close(chain, from, dirty);
    }

    fn close(&mut self, chain: &Chain, from: usize, dirty: bool) {
        let gaps = from..self.all.len();
        if !gaps.is_empty() {
            self.chains.push(Chain {
                dirty,
                gaps,
                ..chain.clone()
            });
        }
    }
}
