//! Replays a plan against the arena, without knowledge of the solver.

use crate::{
    Moment, Plan, PlanError, Program, Repeat, Resident, Role, Slots, Transfer, TransferKind, Use,
};
use std::collections::BTreeMap;

/// Two passes and the transfers into the third show each transition of a steady state.
const PASSES: i64 = 3;

impl Plan {
    /// Replays the plan. Afterwards the following is known:
    ///
    /// - The plan is for this program, and each place is inside the budget.
    /// - No two buffers have a slot at the same time, from the earliest point of a transfer to the device until the place is
    ///   dropped.
    /// - Each step finds its buffers, with the contents that the step before it left.
    /// - No contents are lost: changed contents are written back before they are dropped, unless a later step of the pass
    ///   overwrites them first, or the buffer is scratch memory without a later use in the pass.
    /// - At the end of a pass of a cyclic program the arena is as it was at the beginning; at the end of a single pass each
    ///   home has the contents.
    ///
    /// # Errors
    /// [`PlanError::Digest`] for another program, otherwise [`PlanError::Broken`] with the first rule that the plan breaks, or
    /// [`PlanError::Invalid`] for a program or link with values that are not allowed.
    pub fn check(&self, program: &Program) -> Result<(), PlanError> {
        program.check()?;
        self.link.check()?;
        if self.digest != program.digest() {
            let (plan, program) = (self.digest, program.digest());
            return Err(PlanError::Digest { plan, program });
        }
        if self.steps.len() != program.steps.len() {
            return Err(broken(
                self.steps.len(),
                0,
                "it has one entry for each step of the program",
            ));
        }
        check_transfers(self, program)?;
        let mut replay = Replay::new(self, program);
        let passes = match program.repeat {
            Repeat::Once => 1,
            Repeat::Cyclic => PASSES,
        };
        replay.begin()?;
        for pass in 0..passes {
            replay.pass(pass, pass + 1 == passes)?;
        }
        Ok(())
    }
}

fn broken(step: usize, buffer: usize, rule: &'static str) -> PlanError {
    PlanError::Broken { step, buffer, rule }
}

/// Rules of single transfers.
fn check_transfers(plan: &Plan, program: &Program) -> Result<(), PlanError> {
    let all = plan.steps.iter().enumerate().flat_map(|(step, planned)| {
        let before = planned.before.iter().map(move |one| (step, true, one));
        before.chain(planned.after.iter().map(move |one| (step, false, one)))
    });
    for (step, before, one) in all {
        let fail = |rule| Err(broken(step, one.buffer, rule));
        let Some(buffer) = program.buffers.get(one.buffer) else {
            return fail("a transfer names a buffer of the program");
        };
        let in_place = one.kind == TransferKind::ReadInPlace;
        let slots = if in_place { 0 } else { buffer.slots() };
        if one.slots.count != slots {
            return fail("a place has as many slots as the buffer");
        }
        if one.slots.end() > plan.budget.slots() {
            return fail("a place is inside the budget");
        }
        let after = matches!(one.kind, TransferKind::Out | TransferKind::Drop);
        if before == after {
            return fail(
                "transfers to the device come before a step, and those from it after a step",
            );
        }
        check_moments(step, before, one, program).map_or(Ok(()), fail)?;
    }
    check_resident(plan, program)
}

/// The rule that the points in time of a transfer break.
fn check_moments(
    step: usize,
    before: bool,
    one: &Transfer,
    program: &Program,
) -> Option<&'static str> {
    let cyclic = program.repeat == Repeat::Cyclic;
    let here = Moment { pass: 0, step };
    let earliest = one.earliest.unwrap_or(Moment { pass: -1, step });
    let early = match (before, one.earliest) {
        (false, _) => earliest == here,
        (true, None) => !cyclic || one.kind == TransferKind::ReadInPlace,
        (true, Some(_)) => {
            let last = Moment { pass: -1, step };
            let first_pass = earliest.pass == 0 || cyclic;
            let inside = earliest.step < program.steps.len();
            earliest < here && earliest >= last && inside && first_pass
        }
    };
    if !early {
        return Some("the earliest point is the end of a step less than a pass before");
    }
    let late = match before {
        true => one.deadline == Some(here),
        false => one.deadline.is_none_or(|deadline| deadline > here),
    };
    let rule = "the deadline of a transfer to the device is its step, others are later";
    (!late).then_some(rule)
}

fn check_resident(plan: &Plan, program: &Program) -> Result<(), PlanError> {
    let cyclic = program.repeat == Repeat::Cyclic;
    let mut placed = vec![false; program.buffers.len()];
    for one in &plan.resident {
        let known = program.buffers.get(one.buffer);
        let fits = known.is_some_and(|buffer| buffer.slots() == one.slots.count);
        if !fits || one.slots.end() > plan.budget.slots() {
            let rule = "a resident buffer has a place of its size inside the budget";
            return Err(broken(0, one.buffer, rule));
        }
        if std::mem::replace(&mut placed[one.buffer], true) || !cyclic {
            let rule = "only a cyclic plan has resident buffers, each once";
            return Err(broken(0, one.buffer, rule));
        }
    }
    Ok(())
}

/// Where the contents of a buffer are.
#[derive(Clone, Copy, Default)]
struct Contents {
    /// The home has the current contents.
    home: bool,
    /// The place has the current contents.
    device: bool,
    place: Option<Slots>,
    /// The transfer to the device began in an earlier pass than the use for which it is made.
    for_next_pass: bool,
}

struct Replay<'a> {
    plan: &'a Plan,
    program: &'a Program,
    /// The end and the buffer of each place in use, by its first slot.
    arena: BTreeMap<u64, (u64, usize)>,
    buffers: Vec<Contents>,
    /// For each step: the transfers that begin at its end, in this pass, and those of the next pass.
    begins: Vec<Vec<(usize, usize)>>,
    begins_next: Vec<Vec<(usize, usize)>>,
    /// For each buffer, the steps that use it.
    uses: Vec<Vec<(usize, Use)>>,
}

impl<'a> Replay<'a> {
    fn new(plan: &'a Plan, program: &'a Program) -> Self {
        let steps = plan.steps.len();
        let mut begins = vec![Vec::new(); steps];
        let mut begins_next = vec![Vec::new(); steps];
        for (step, planned) in plan.steps.iter().enumerate() {
            for (index, one) in planned.before.iter().enumerate() {
                match one.earliest {
                    Some(Moment { pass: 0, step: at }) => begins[at].push((step, index)),
                    Some(Moment { step: at, .. }) => begins_next[at].push((step, index)),
                    None => {}
                }
            }
        }
        let mut uses = vec![Vec::new(); program.buffers.len()];
        for (step, one) in program.steps.iter().enumerate() {
            for &one in &one.uses {
                uses[one.buffer].push((step, one));
            }
        }
        let home = Contents {
            home: true,
            ..Contents::default()
        };
        Self {
            plan,
            program,
            arena: BTreeMap::new(),
            buffers: vec![home; program.buffers.len()],
            begins,
            begins_next,
            uses,
        }
    }

    /// The state before the first pass.
    fn begin(&mut self) -> Result<(), PlanError> {
        for &Resident { buffer, slots } in &self.plan.resident {
            self.place(0, buffer, slots)?;
            self.buffers[buffer].device = true;
        }
        let plan = self.plan;
        for step in 0..plan.steps.len() {
            for index in 0..plan.steps[step].before.len() {
                let one = plan.steps[step].before[index];
                if one.earliest.is_none_or(|earliest| earliest.pass < 0) {
                    self.begin_transfer(step, &one, false)?;
                }
            }
        }
        Ok(())
    }

    fn pass(&mut self, pass: i64, last: bool) -> Result<(), PlanError> {
        let plan = self.plan;
        for (buffer, spec) in self.program.buffers.iter().enumerate() {
            self.buffers[buffer].for_next_pass = false;
            if spec.role == Role::Scratch && pass == 0 {
                self.buffers[buffer].home = false;
            }
        }
        for (step, planned) in plan.steps.iter().enumerate() {
            self.step(step)?;
            for one in &planned.after {
                self.end_transfer(step, one)?;
            }
            for (at, index) in self.begins[step].clone() {
                self.begin_transfer(step, &plan.steps[at].before[index], false)?;
            }
            if !last {
                for (at, index) in self.begins_next[step].clone() {
                    self.begin_transfer(step, &plan.steps[at].before[index], true)?;
                }
            }
        }
        self.end()
    }

    /// The state after a pass.
    fn end(&self) -> Result<(), PlanError> {
        let end = self.plan.steps.len();
        if self.program.repeat == Repeat::Once {
            for (buffer, spec) in self.program.buffers.iter().enumerate() {
                if spec.role == Role::ReadWrite && !self.buffers[buffer].home {
                    return Err(broken(end, buffer, "each home has the contents at the end"));
                }
            }
            return Ok(());
        }
        let mut resident = vec![None; self.buffers.len()];
        for one in &self.plan.resident {
            resident[one.buffer] = Some(one.slots);
        }
        for (buffer, contents) in self.buffers.iter().enumerate() {
            let place = contents.place.filter(|_| !contents.for_next_pass);
            if place != resident[buffer] {
                let rule = "the arena at the end of a pass is that of its beginning";
                return Err(broken(end, buffer, rule));
            }
        }
        Ok(())
    }

    fn place(&mut self, step: usize, buffer: usize, slots: Slots) -> Result<(), PlanError> {
        if self.buffers[buffer].place.is_some() {
            return Err(broken(step, buffer, "a buffer has one place at a time"));
        }
        let before = self.arena.range(..slots.end()).next_back();
        if before.is_some_and(|(_, &(end, _))| end > slots.first) {
            return Err(broken(step, buffer, "no two buffers have the same slot"));
        }
        self.arena.insert(slots.first, (slots.end(), buffer));
        self.buffers[buffer].place = Some(slots);
        Ok(())
    }

    fn begin_transfer(&mut self, step: usize, one: &Transfer, next: bool) -> Result<(), PlanError> {
        if one.kind == TransferKind::ReadInPlace {
            return Ok(());
        }
        self.place(step, one.buffer, one.slots)?;
        let contents = &mut self.buffers[one.buffer];
        contents.for_next_pass = next;
        contents.device = one.kind == TransferKind::In;
        if contents.device && !contents.home {
            let rule = "changed contents are written back before they are transferred in";
            return Err(broken(step, one.buffer, rule));
        }
        Ok(())
    }

    fn step(&mut self, step: usize) -> Result<(), PlanError> {
        let planned = &self.plan.steps[step].before;
        let mut in_place = planned
            .iter()
            .filter(|one| one.kind == TransferKind::ReadInPlace)
            .map(|one| one.buffer)
            .collect::<Vec<_>>();
        for &one in &self.program.steps[step].uses {
            let spec = &self.program.buffers[one.buffer];
            let first = self.uses[one.buffer][0].0 == step;
            let begins = first && spec.role == Role::Scratch;
            let contents = &mut self.buffers[one.buffer];
            if let Some(at) = in_place.iter().position(|&buffer| buffer == one.buffer) {
                in_place.swap_remove(at);
                if one.access.writes() || !spec.in_place || !contents.home {
                    let rule = "a buffer is read in place if it allows that, and its home has the contents";
                    return Err(broken(step, one.buffer, rule));
                }
                continue;
            }
            if contents.place.is_none() || contents.for_next_pass {
                return Err(broken(step, one.buffer, "a step finds its buffers"));
            }
            if one.access.reads() && !begins && !contents.device {
                return Err(broken(step, one.buffer, "a step reads current contents"));
            }
            if one.access.writes() || begins {
                (contents.home, contents.device) = (false, true);
            }
        }
        match in_place.first() {
            None => Ok(()),
            Some(&buffer) => {
                let rule = "a buffer is read in place by a step that uses it";
                Err(broken(step, buffer, rule))
            }
        }
    }

    fn end_transfer(&mut self, step: usize, one: &Transfer) -> Result<(), PlanError> {
        let contents = self.buffers[one.buffer];
        if contents.place != Some(one.slots) || contents.for_next_pass {
            return Err(broken(
                step,
                one.buffer,
                "a transfer leaves the place of its buffer",
            ));
        }
        if one.kind == TransferKind::Out {
            if !contents.device {
                return Err(broken(
                    step,
                    one.buffer,
                    "a transfer out has current contents",
                ));
            }
            self.buffers[one.buffer].home = true;
            return Ok(());
        }
        if contents.device && !contents.home && self.lives(step, one.buffer) {
            let rule = "changed contents are written back before they are dropped";
            return Err(broken(step, one.buffer, rule));
        }
        self.arena.remove(&one.slots.first);
        self.buffers[one.buffer].place = None;
        self.buffers[one.buffer].device = false;
        Ok(())
    }

    /// Whether the contents of a buffer after a step are needed.
    fn lives(&self, step: usize, buffer: usize) -> bool {
        let uses = &self.uses[buffer];
        let next = uses.partition_point(|&(at, _)| at <= step);
        match uses.get(next) {
            Some((_, next)) => next.access.reads(),
            None => self.program.buffers[buffer].role == Role::ReadWrite,
        }
    }
}
