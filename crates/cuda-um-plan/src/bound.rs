//! A lower bound of the bytes and the time of a pass.

use crate::{Link, PlanBudget, PlanError, Program, Repeat, Role, SLOT_BYTES};
use std::collections::BinaryHeap;

/// What no plan beats, even one that splits buffers into bytes and knows no fragmentation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Bound {
    /// Bytes to the device.
    pub in_bytes: u64,
    /// Bytes from the device.
    pub out_bytes: u64,
    /// The time of a pass: that of all steps, or that of these bytes at full speed without latency, in each direction and in both
    /// together.
    pub seconds: f64,
}

/// Uses that the bound replays at most, over several passes.
const MOST_USES: usize = 20_000;

impl Program {
    /// The lower bound of a pass.
    ///
    /// The bytes to the device are those of Belady's rule for single bytes, which is optimal: what is used last leaves first.
    /// Several passes of a cyclic program are replayed, and the average of a pass is taken. The bytes from the device are those
    /// that are dirty between two steps and do not fit into the budget, or all results of a single pass.
    ///
    /// # Errors
    /// [`PlanError::Invalid`] for a program or link with values that are not allowed.
    pub fn lower_bound(&self, budget: PlanBudget, link: Link) -> Result<Bound, PlanError> {
        self.check()?;
        link.check()?;
        Ok(self.bound(budget, &link))
    }

    /// The bound of a program and a link that are checked.
    pub(crate) fn bound(&self, budget: PlanBudget, link: &Link) -> Bound {
        let bytes = budget.slots() * SLOT_BYTES;
        let (in_bytes, out_bytes) = (Least::new(self).run(bytes), self.least_out(bytes));
        let compute: f64 = self.steps.iter().map(|step| step.compute_seconds).sum();
        // All at the speed of the fastest buffer.
        let links = || self.buffers.iter().map(|spec| link.of(spec));
        let fastest_in = links().map(|link| link.in_bytes_per_second);
        let fastest_out = links().map(|link| link.out_bytes_per_second);
        let ins = in_bytes as f64 / fastest_in.fold(1.0, f64::max);
        let outs = out_bytes as f64 / fastest_out.fold(1.0, f64::max);
        // While both directions work for `x` seconds and one of them for `y` and `z` seconds, `ins = both_ways * x + y` and
        // `outs = both_ways * x + z`, so `ins + other * outs <= x + y + z`.
        let other = (1.0 / link.both_ways - 1.0).min(1.0);
        let both = (ins + other * outs).max(outs + other * ins);
        Bound {
            in_bytes,
            out_bytes,
            seconds: both.max(compute),
        }
    }

    fn least_out(&self, budget: u64) -> u64 {
        let mut written = vec![None; self.buffers.len()];
        let mut ends = vec![0_i64; self.steps.len() + 1];
        let mut needs = vec![0; self.steps.len()];
        let passes = match self.repeat {
            Repeat::Once => 1,
            Repeat::Cyclic => 2,
        };
        for pass in 0..passes {
            let mut used = vec![false; self.buffers.len()];
            for (step, planned) in self.steps.iter().enumerate() {
                for one in &planned.uses {
                    let spec = &self.buffers[one.buffer];
                    let begins = !std::mem::replace(&mut used[one.buffer], true);
                    if pass == 0 && !spec.in_place {
                        needs[step] += spec.bytes;
                    }
                    let scratch = spec.role == Role::Scratch && begins;
                    let last = written[one.buffer].filter(|_| one.access.reads() && !scratch);
                    if let Some((before, at)) = last {
                        dirty(&mut ends, before, at, pass, step, spec.bytes as i64);
                    }
                    let writes = one.access.writes() || scratch;
                    written[one.buffer] = writes.then_some((pass, step));
                }
            }
        }
        let mut now = 0;
        let mut most = 0;
        for (step, need) in needs.iter().enumerate() {
            now += ends[step];
            most = most.max((now.max(0) as u64 + need).saturating_sub(budget));
        }
        match self.repeat {
            Repeat::Cyclic => most,
            Repeat::Once => {
                let mut writes = vec![false; self.buffers.len()];
                let uses = self.steps.iter().flat_map(|step| &step.uses);
                uses.for_each(|one| writes[one.buffer] |= one.access.writes());
                let results = self.buffers.iter().zip(writes);
                let results =
                    results.filter(|(spec, writes)| *writes && spec.role == Role::ReadWrite);
                most.max(results.map(|(spec, _)| spec.bytes).sum())
            }
        }
    }
}

/// Counts bytes as dirty strictly between two steps.
fn dirty(ends: &mut [i64], before: i32, from: usize, pass: i32, until: usize, bytes: i64) {
    let steps = ends.len() - 1;
    let mut add = |from: usize, until: usize| {
        if from < until {
            ends[from] += bytes;
            ends[until] -= bytes;
        }
    };
    if before == pass {
        // The second pass counts only what crosses its beginning.
        if pass == 0 {
            add(from + 1, until);
        }
    } else {
        add((from + 1).min(steps), steps);
        add(0, until);
    }
}

/// Belady's rule for bytes.
struct Least<'a> {
    program: &'a Program,
    /// For each use the time of the next use that needs the contents, in steps from the beginning of its pass.
    next: Vec<usize>,
    kept: Vec<u64>,
    leaves: Vec<usize>,
    order: BinaryHeap<(usize, usize)>,
    total: u64,
}

impl<'a> Least<'a> {
    fn new(program: &'a Program) -> Self {
        let steps = program.steps.len();
        let count = program.steps.iter().map(|step| step.uses.len()).sum();
        let mut next = vec![usize::MAX; count];
        let mut after = vec![usize::MAX; program.buffers.len()];
        let mut first = vec![true; program.buffers.len()];
        let mut firsts = vec![usize::MAX; program.buffers.len()];
        for (step, planned) in program.steps.iter().enumerate() {
            for one in &planned.uses {
                if std::mem::take(&mut first[one.buffer]) {
                    firsts[one.buffer] = step;
                    let scratch = program.buffers[one.buffer].role == Role::Scratch;
                    if program.repeat == Repeat::Cyclic && one.access.reads() && !scratch {
                        after[one.buffer] = steps + step;
                    }
                }
            }
        }
        let mut index = count;
        for (step, planned) in program.steps.iter().enumerate().rev() {
            for one in planned.uses.iter().rev() {
                index -= 1;
                next[index] = after[one.buffer];
                let reads = one.access.reads();
                after[one.buffer] = if reads { step } else { usize::MAX };
            }
        }
        Self {
            program,
            next,
            kept: vec![0; program.buffers.len()],
            leaves: vec![usize::MAX; program.buffers.len()],
            order: BinaryHeap::new(),
            total: 0,
        }
    }

    fn run(mut self, budget: u64) -> u64 {
        let steps = self.program.steps.len();
        let cyclic = self.program.repeat == Repeat::Cyclic;
        let uses = self.next.len();
        if uses == 0 {
            return 0;
        }
        let passes = if cyclic {
            (MOST_USES / uses).clamp(2, 8)
        } else {
            1
        };
        let mut bytes = 0;
        for pass in 0..passes {
            let mut index = 0;
            let mut used = vec![false; self.program.buffers.len()];
            for (step, planned) in self.program.steps.iter().enumerate() {
                let now = pass * steps + step;
                for one in &planned.uses {
                    let spec = &self.program.buffers[one.buffer];
                    let begins = !std::mem::replace(&mut used[one.buffer], true);
                    let missing = spec.bytes - self.kept[one.buffer];
                    if one.access.reads() && !(begins && spec.role == Role::Scratch) {
                        bytes += missing;
                    }
                    self.total += missing;
                    self.kept[one.buffer] = spec.bytes;
                    // A buffer that is read in place needs no space during its step.
                    let (next, in_place) = (self.next[index], spec.in_place);
                    self.leaves[one.buffer] = match next {
                        usize::MAX => usize::MAX,
                        next => pass * steps + next,
                    };
                    if in_place {
                        self.order.push((self.leaves[one.buffer], one.buffer));
                    }
                    index += 1;
                }
                self.shrink(budget, now);
                for one in &planned.uses {
                    self.after(one.buffer);
                }
            }
        }
        if !cyclic {
            return bytes;
        }
        let all: u64 = self.program.buffers.iter().map(|spec| spec.bytes).sum();
        // A cyclic plan begins with at most this.
        bytes.saturating_sub(all.min(budget)) / passes as u64
    }

    fn shrink(&mut self, budget: u64, now: usize) {
        while self.total > budget {
            let Some((leaves, buffer)) = self.order.pop() else {
                return;
            };
            if leaves != self.leaves[buffer] || leaves <= now {
                continue;
            }
            let excess = (self.total - budget).min(self.kept[buffer]);
            self.kept[buffer] -= excess;
            self.total -= excess;
            if self.kept[buffer] > 0 {
                self.order.push((leaves, buffer));
            }
        }
    }

    /// After a step, contents that are not needed again leave.
    fn after(&mut self, buffer: usize) {
        if self.leaves[buffer] == usize::MAX {
            self.total -= self.kept[buffer];
            self.kept[buffer] = 0;
        } else if self.kept[buffer] > 0 {
            self.order.push((self.leaves[buffer], buffer));
        }
    }
}
