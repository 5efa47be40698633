//! The uses of a program, and the cost of not keeping a buffer from one use to the next.

use crate::{BufferSpec, Link, Program, Repeat, Role};

/// A use of a buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OneUse {
    pub buffer: usize,
    pub writes: bool,
    /// The step needs the contents that were there before.
    pub needs: bool,
    /// The step of the next use. In the next pass it is counted from the first step of this one; `usize::MAX` without one.
    pub next: usize,
    /// The next use as an index of all uses, counted in the same way.
    pub next_use: usize,
    /// The contents after this use are needed, by a later step or in the home.
    pub lives: bool,
    /// The next use needs the contents, so they are transferred in if they are not kept.
    pub returns: bool,
}

/// A buffer as the solver needs it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    pub slots: u64,
    /// The times of its transfers.
    pub in_seconds: f64,
    pub out_seconds: f64,
    pub writes: bool,
    /// The steps of its first and last use; `usize::MAX` without a use.
    pub first: usize,
    pub last: usize,
    /// The first and last one as an index of all uses.
    pub first_use: usize,
    pub last_use: usize,
    /// Its contents are used in the next pass, and the first use there needs them.
    pub wraps: bool,
    pub returns: bool,
    /// It can be read in place.
    pub in_place: bool,
    /// It can be read in place during its only step, without making the step slower.
    pub free_in_place: bool,
}

impl Facts {
    /// A buffer without uses.
    fn of(spec: &BufferSpec, link: &Link) -> Self {
        let link = link.of(spec);
        Self {
            slots: spec.slots(),
            in_seconds: link.in_seconds(spec.bytes),
            out_seconds: link.out_seconds(spec.bytes),
            writes: false,
            first: usize::MAX,
            last: usize::MAX,
            first_use: usize::MAX,
            last_use: usize::MAX,
            wraps: false,
            returns: false,
            in_place: spec.in_place && spec.role == Role::ReadOnly,
            free_in_place: false,
        }
    }

    /// The time to transfer it again in each pass if it is not kept from the last use to the first one of the next pass.
    /// `out_weight` is the part of the time of transfers from the device that counts.
    pub(crate) fn wrap_cost(&self, out_weight: f64) -> f64 {
        let ins = if self.returns { self.in_seconds } else { 0.0 };
        let outs = if self.writes { self.out_seconds } else { 0.0 };
        if self.wraps {
            ins + outs * out_weight
        } else {
            0.0
        }
    }
}

/// Which buffers are read in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InPlace {
    Nothing,
    /// Those that cost their step no time.
    Free,
    All,
}

impl InPlace {
    pub(crate) fn applies(self, facts: &Facts) -> bool {
        match self {
            Self::Nothing => false,
            Self::Free => facts.free_in_place,
            Self::All => facts.in_place,
        }
    }
}

/// All uses of a pass.
#[derive(Debug)]
pub(crate) struct Uses {
    pub cyclic: bool,
    pub buffers: Vec<Facts>,
    pub all: Vec<OneUse>,
    /// For each step the index of its first use, and at the end the number of uses.
    pub starts: Vec<usize>,
}

impl Uses {
    pub(crate) fn of(program: &Program, link: &Link) -> Self {
        let cyclic = program.repeat == Repeat::Cyclic;
        let facts = program.buffers.iter().map(|spec| Facts::of(spec, link));
        let mut buffers: Vec<Facts> = facts.collect();
        let mut starts = Vec::with_capacity(program.steps.len() + 1);
        let count = program.steps.iter().map(|step| step.uses.len()).sum();
        let mut all: Vec<OneUse> = Vec::with_capacity(count);
        for (step, planned) in program.steps.iter().enumerate() {
            starts.push(all.len());
            for one in &planned.uses {
                let spec = &program.buffers[one.buffer];
                let role = spec.role;
                let facts = &mut buffers[one.buffer];
                let is_first = facts.first == usize::MAX;
                if is_first {
                    (facts.first, facts.first_use) = (step, all.len());
                }
                let before = facts.last_use;
                (facts.last, facts.last_use) = (step, all.len());
                let index = all.len();
                let begins = is_first && role == Role::Scratch;
                let needs = one.access.reads() && !begins;
                let writes = one.access.writes() || begins;
                facts.writes |= writes;
                if let Some(before) = all.get_mut(before) {
                    (before.next, before.next_use) = (step, index);
                    (before.lives, before.returns) = (needs, needs);
                }
                facts.free_in_place = facts.in_place
                    && is_first
                    && link.in_place_seconds(spec.bytes) <= planned.compute_seconds;
                all.push(OneUse {
                    buffer: one.buffer,
                    writes,
                    needs,
                    next: usize::MAX,
                    next_use: usize::MAX,
                    lives: role == Role::ReadWrite,
                    returns: false,
                });
            }
        }
        starts.push(all.len());
        let mut uses = Self {
            cyclic,
            buffers,
            all,
            starts,
        };
        if cyclic {
            uses.wrap(program);
        }
        uses
    }

    pub(crate) fn steps(&self) -> usize {
        self.starts.len() - 1
    }

    pub(crate) fn of_step(&self, step: usize) -> &[OneUse] {
        &self.all[self.starts[step]..self.starts[step + 1]]
    }

    /// The next use of the last one of a pass is the first one of the next pass.
    fn wrap(&mut self, program: &Program) {
        let steps = self.steps();
        let count = self.all.len();
        for buffer in 0..self.buffers.len() {
            let facts = self.buffers[buffer];
            if facts.first == usize::MAX || program.buffers[buffer].role == Role::Scratch {
                continue;
            }
            let needs = self.all[facts.first_use].needs;
            let last = &mut self.all[facts.last_use];
            (last.next, last.next_use) = (steps + facts.first, count + facts.first_use);
            last.returns = needs;
            last.lives |= needs;
            let facts = &mut self.buffers[buffer];
            (facts.wraps, facts.returns) = (true, needs);
        }
    }
}
