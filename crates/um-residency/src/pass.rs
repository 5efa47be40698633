//! A pass that is being recorded or run: what it knows, without the arena.

use std::collections::HashMap;
use std::sync::Arc;

use cuda_um_plan::{Access, Moment, Plan, Program, Role, Transfer, Use};
use um_backend::cuda_um::{DeviceBuffer, Event};

use crate::entries::Id;
use crate::thread::{ThreadNumber, this_thread};

/// The pass of a thread. Working sets of other threads are not part of it.
pub(crate) struct Pass {
    pub(crate) thread: ThreadNumber,
    pub(crate) kind: Kind,
    /// The times of the steps, if they are measured.
    pub(crate) clock: Option<Clock>,
}

pub(crate) enum Kind {
    Recorded(Recorder),
    Planned(Box<Runner>),
}

/// Measures each step on its stream.
pub(crate) struct Clock {
    /// A use of a buffer copies a byte here, so that the stream comes after the buffer's transfers.
    pub(crate) probe: DeviceBuffer<u8>,
    /// Before the transfers of the step that begins.
    pub(crate) begins: Option<Event>,
    pub(crate) steps: Vec<StepEvents>,
}

/// The events of a step.
pub(crate) struct StepEvents {
    /// The step before has ended.
    pub(crate) begins: Event,
    /// All transfers are complete.
    pub(crate) ready: Event,
}

/// What a recorded pass did.
#[derive(Default)]
pub(crate) struct Recorder {
    /// The buffers in the order of their first use.
    pub(crate) buffers: Vec<Id>,
    index: HashMap<Id, usize>,
    pub(crate) steps: Vec<Vec<Use>>,
}

impl Recorder {
    pub(crate) fn step(&mut self, list: &[(Id, Access)]) {
        let mut uses: Vec<Use> = Vec::new();
        for &(id, access) in list {
            let next = self.buffers.len();
            let buffer = *self.index.entry(id).or_insert(next);
            if buffer == next {
                self.buffers.push(id);
            }
            if uses.iter().all(|other| other.buffer != buffer) {
                uses.push(Use { buffer, access });
            }
        }
        self.steps.push(uses);
    }
}

/// A plan and the state of its execution.
pub(crate) struct Runner {
    pub(crate) program: Arc<Program>,
    pub(crate) plan: Arc<Plan>,
    /// The buffers of the program.
    pub(crate) ids: Vec<Id>,
    /// The uses of each buffer: steps, and the access.
    pub(crate) uses: Arc<Vec<Vec<(usize, Access)>>>,
    /// The next step of the pass.
    pub(crate) step: usize,
    /// The steps whose transfers from the device are done.
    pub(crate) ended: usize,
    /// The next transfer to the device.
    pub(crate) next: Cursor,
    pub(crate) course: Course,
}

/// A transfer of a plan to the device.
#[derive(Clone, Copy, Default)]
pub(crate) struct Cursor {
    /// 1 if it is for the next pass.
    pub(crate) pass: i8,
    pub(crate) step: usize,
    /// The place among the transfers before the step.
    pub(crate) index: usize,
}

/// Whether a run follows its plan.
///
/// ```text
///   Lost ──── a pass begins ────▶ OnPlan ──── another set than the plan's ────▶ Diverged
///    ▲ ◀── a pass ends early ───────┘                                               │
///    └──────────────────────────── the next pass begins ────────────────────────────┘
/// ```
pub(crate) enum Course {
    /// The arena is not as the plan expects it at the beginning of a pass.
    Lost,
    OnPlan,
    /// The rest of the pass is announced. The arena is lost for the next one.
    Diverged(Divergence),
}

/// Where a run left its plan: [`PassReport::divergence`](crate::PassReport::divergence).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Divergence {
    /// The index of the step.
    pub step: usize,
    /// The uses that the plan expects; empty after the last step.
    pub expected: String,
    /// The uses of the run; empty if the pass ended.
    pub found: String,
}

impl Runner {
    /// The runner for an arena in any state.
    pub(crate) fn new(program: Arc<Program>, plan: Arc<Plan>, ids: Vec<Id>) -> Self {
        let mut uses = vec![Vec::new(); ids.len()];
        for (step, of) in program.steps.iter().enumerate() {
            of.uses
                .iter()
                .for_each(|one| uses[one.buffer].push((step, one.access)));
        }
        Self {
            program,
            plan,
            ids,
            uses: Arc::new(uses),
            step: 0,
            ended: 0,
            next: Cursor::default(),
            course: Course::Lost,
        }
    }

    /// Whether no later step needs the contents that a buffer has after this one.
    pub(crate) fn is_dead(&self, buffer: usize, step: usize) -> bool {
        let uses = &self.uses[buffer];
        match uses.get(uses.partition_point(|(at, _)| *at <= step)) {
            Some((_, access)) => *access == Access::Write,
            None => self.program.buffers[buffer].role == Role::Scratch,
        }
    }

    /// Whether the next step of the program uses exactly these buffers.
    pub(crate) fn expects(&self, list: &[(Id, Access)]) -> bool {
        let Some(step) = self.program.steps.get(self.step) else {
            return false;
        };
        let fits = |one: &Use, &(id, access): &(Id, Access)| {
            self.ids[one.buffer] == id && one.access == access
        };
        let has = |one: &Use| list.iter().any(|found| fits(one, found));
        let known = |found: &(Id, Access)| step.uses.iter().any(|one| fits(one, found));
        step.uses.iter().all(has) && list.iter().all(known)
    }

    /// The next transfer to the device, if its earliest point is over.
    pub(crate) fn due(&self) -> Option<Transfer> {
        let one = *self
            .plan
            .steps()
            .get(self.next.step)?
            .before
            .get(self.next.index)?;
        let is_over = match one.earliest {
            None => self.next.pass == 0,
            Some(Moment { pass, step, .. }) => {
                let pass = pass + self.next.pass;
                pass < 0 || (pass == 0 && step < self.step)
            }
        };
        is_over.then_some(one)
    }

    /// Goes to the next transfer to the device, at most to the end of the next pass.
    pub(crate) fn advance(&mut self, by: usize) {
        let (steps, next) = (self.plan.steps(), &mut self.next);
        next.index += by;
        loop {
            match steps.get(next.step) {
                Some(step) if next.index < step.before.len() => break,
                Some(_) => (next.step, next.index) = (next.step + 1, 0),
                None if next.pass == 0 => (next.pass, next.step, next.index) = (1, 0, 0),
                None => break,
            }
        }
    }

    /// The same plan at its beginning, for an arena in any state.
    pub(crate) fn again(&self) -> Self {
        Self {
            program: Arc::clone(&self.program),
            plan: Arc::clone(&self.plan),
            ids: self.ids.clone(),
            uses: Arc::clone(&self.uses),
            step: 0,
            ended: 0,
            next: Cursor::default(),
            course: Course::Lost,
        }
    }

    pub(crate) fn is_on_plan(&self) -> bool {
        matches!(self.course, Course::OnPlan)
    }

    pub(crate) fn divergence(&self) -> Option<&Divergence> {
        match &self.course {
            Course::Diverged(divergence) => Some(divergence),
            Course::Lost | Course::OnPlan => None,
        }
    }

    /// The uses of a step of the program in words.
    pub(crate) fn expected(&self) -> String {
        let step = self.program.steps.get(self.step);
        let uses = step.into_iter().flat_map(|step| &step.uses);
        let one = |one: &Use| format!("{:?} {}", one.access, self.program.buffers[one.buffer].name);
        uses.map(one).collect::<Vec<_>>().join(", ")
    }
}

impl Pass {
    pub(crate) fn is_of_this_thread(&self) -> bool {
        self.thread == this_thread()
    }
}
