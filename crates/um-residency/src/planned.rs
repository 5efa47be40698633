//! Passes that follow a plan.

use std::collections::VecDeque;
use std::sync::Arc;

use cuda_um_plan::{Plan, PlanError, Program};
use um_backend::cuda_um::{Event, Stream};

use crate::arena::Arena;
use crate::entry::Entry;
use crate::error::{Error, Result};
use crate::pass::{Clock, Divergence, Kind, Pass, Runner};
use crate::record::Active;
use crate::report::{PassReport, Report};
use crate::stats::{LoggedChange, Stats};
use crate::steer;

/// A plan for the buffers of an arena. [`run`](Self::run) is called for each pass.
///
/// ```
/// # use std::sync::Arc;
/// # use um_backend::{CudaBackend, CudaBackendConfig, sim::Sim};
/// # let config = CudaBackendConfig::default().simulator(Sim::builder().build().unwrap());
/// # let backend = CudaBackend::initialize_blocking(config)?;
/// use um_residency::{Arena, Budget, Homed, Input, Link, Planned, Role, working_set};
///
/// let stream = backend.device().create_stream()?;
/// let arena = Arena::new(backend.device(), Budget::Bytes(4 << 20))?;
/// let layers: Vec<_> = (0..4)
///     .map(|layer| Homed::from_slice(&arena, &vec![layer; 1 << 19], Role::ReadOnly))
///     .collect::<Result<_, _>>()?;
/// let pass = || {
///     for layer in &layers {
///         let weights = working_set(&stream, Input(layer))?; // launch kernels that read `&weights`
///     }
///     Ok::<(), um_residency::Error>(())
/// };
/// let (done, program) = arena.record(&stream, pass)?;
/// done?;
/// let plan = program.solve(arena.plan_budget(), Link::pcie5())?;
/// let mut planned = Planned::new(&arena, program, plan)?;
/// planned.measure_stalls(true); // the waits of each step for its transfers, too
/// for _ in 0..3 {
///     planned.run(&stream, pass)??;
/// }
/// let report = planned.report()?;
/// assert_eq!(report.passes[2].in_bytes, report.prediction.in_bytes);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Planned {
    arena: Arena,
    runner: Box<Runner>,
    passes: Vec<PassReport>,
    /// The last passes, in order.
    timed: VecDeque<Timed>,
    changes: Vec<LoggedChange>,
    measures: bool,
}

/// A pass whose time may not be known yet.
struct Timed {
    begin: Event,
    end: Event,
    /// The arena's counters before and after it.
    stats: [Stats; 2],
    clock: Option<Clock>,
    divergence: Option<Divergence>,
}

impl Planned {
    /// Checks a plan, and finds the buffers of its program in the arena by name, size and role.
    ///
    /// # Errors
    /// [`Error::Plan`] for a plan that is not valid for the program, or needs a larger budget; [`Error::UnknownBuffer`] unless each name
    /// belongs to one buffer; [`Error::NotInPlace`] if the program allows to read a buffer in place that is not
    /// [read once](crate::Homed::set_read_once).
    pub fn new(arena: &Arena, program: Program, plan: Plan) -> Result<Self> {
        plan.check(&program)?;
        let (needs, has) = (plan.budget(), arena.plan_budget());
        if needs.slots() > has.slots() {
            let (plan, given) = (needs.bytes, has.bytes);
            return Err(PlanError::Budget { plan, given }.into());
        }
        arena.shared.check_process("Planned::new")?;
        let state = arena.shared.state.lock();
        let mut ids = Vec::with_capacity(program.buffers.len());
        for spec in &program.buffers {
            let entries = state.entries.iter();
            let mut fitting = entries.filter_map(|(id, entry)| entry.fits(spec).then_some(id));
            match (fitting.next(), fitting.count()) {
                (Some(id), 0) => ids.push(id),
                (first, more) => {
                    return Err(Error::UnknownBuffer {
                        name: spec.name.clone(),
                        bytes: spec.bytes,
                        found: usize::from(first.is_some()) + more,
                    });
                }
            }
        }
        drop(state);
        let runner = Runner::new(Arc::new(program), Arc::new(plan), ids);
        let planned = Self {
            arena: arena.clone(),
            runner: Box::new(runner),
            passes: Vec::new(),
            timed: VecDeque::new(),
            changes: Vec::new(),
            measures: false,
        };
        planned.live(&planned.runner)?;
        Ok(planned)
    }

    /// Measures the wait of each step for its transfers in later passes. Each step then has two events more, a copy of a byte for each of its
    /// buffers, and a second one for a buffer of an [`Output`](crate::Output), so the cost grows with the buffers of a step: on the simulated
    /// H200, a pass of 48 steps with two buffers each takes 5.5 microseconds longer for each step.
    pub fn measure_stalls(&mut self, measures: bool) {
        self.measures = measures;
    }

    /// Runs a pass. Its working sets, on this thread, get what the plan transferred ahead. A pass that leaves the plan continues with
    /// look-ahead over the rest of the plan; the report says where, and the next pass begins anew.
    ///
    /// The buffers of the program must be live; a pass after the drop of one is refused.
    ///
    /// # Ordering
    /// `pass` returns when its work is enqueued, and so does this.
    ///
    /// # Errors
    /// [`Error::PassActive`] within another pass, [`Error::UnknownBuffer`] for a dropped buffer, [`Error::NotInPlace`] as for
    /// [`new`](Self::new), [`RuntimeMismatch`](um_backend::cuda_um::Error::RuntimeMismatch) for a stream of another runtime, and errors of CUDA. The
    /// result of `pass` may then be lost, and the next pass begins anew.
    pub fn run<R>(&mut self, stream: &Stream, pass: impl FnOnce() -> R) -> Result<R> {
        let shared = Arc::clone(&self.arena.shared);
        shared.check_stream(stream)?;
        let active = Active::enter(&shared, "run")?;
        // Stays if this pass fails or panics: the next one begins anew.
        let again = self.runner.again();
        let mut runner = std::mem::replace(&mut self.runner, Box::new(again));
        let clock = match self.measures {
            true => Clock::new(stream).map(Some),
            false => Ok(None),
        };
        let before = self.arena.stats();
        self.live(&runner)?;
        let (clock, begin) = (clock?, Event::timed(stream)?);
        steer::enter(&shared, &mut runner)?;
        active.begin(Kind::Planned(runner), clock);
        let result = pass();
        let Some(Pass {
            kind: Kind::Planned(mut runner),
            clock,
            ..
        }) = active.end("run")?
        else {
            return Err(Error::PassActive { call: "run" });
        };
        let left = steer::leave(&shared, &mut runner);
        self.changes = active.log();
        drop(active);
        left?;
        let divergence = runner.divergence().cloned();
        self.runner = runner;
        let (after, end) = (self.arena.stats(), Event::timed(stream)?);
        self.keep_times();
        self.timed.push_back(Timed {
            begin,
            end,
            stats: [before, after],
            clock,
            divergence,
        });
        Ok(result)
    }

    /// Checks that the buffers of the program are there, as it describes them.
    fn live(&self, runner: &Runner) -> Result<()> {
        let state = self.arena.shared.state.lock();
        for (&id, spec) in runner.ids.iter().zip(&runner.program.buffers) {
            let fits = |entry: &&Entry| entry.fits(spec);
            let Some(entry) = state.entries.get(id).filter(fits) else {
                return Err(Error::UnknownBuffer {
                    name: spec.name.clone(),
                    bytes: spec.bytes,
                    found: 0,
                });
            };
            if spec.in_place && !entry.read_once {
                let why = [
                    "it is not marked as read once",
                    "call `set_read_once(true)`, or record the pass again",
                ];
                return Err(Error::not_in_place(spec.name.clone(), why));
            }
        }
        Ok(())
    }

    /// Reads the times of passes that are over, so that their events do not accumulate.
    fn keep_times(&mut self) {
        while let Some(first) = self.timed.front()
            && first.end.is_complete().unwrap_or(false)
            && let Ok(report) = first.report()
        {
            self.passes.push(report);
            self.timed.pop_front();
        }
    }

    /// What the passes did, beside the prediction. Waits for their work.
    ///
    /// # Errors
    /// Errors of CUDA, also of earlier work.
    pub fn report(&self) -> Result<Report> {
        let known = self.passes.iter().cloned().map(Ok);
        let passes = known.chain(self.timed.iter().map(Timed::report));
        Ok(Report {
            prediction: self.runner.plan.prediction().clone(),
            passes: passes.collect::<Result<_>>()?,
            changes: self.changes.clone(),
        })
    }
}

impl Timed {
    fn report(&self) -> Result<PassReport> {
        let stalls = self.clock.as_ref().map_or(Ok(Vec::new()), Clock::stalls)?;
        let [before, after] = &self.stats;
        let in_place_bytes = after.in_place_bytes - before.in_place_bytes;
        Ok(PassReport {
            time: self.end.elapsed_since(&self.begin)?,
            in_bytes: after.in_bytes - before.in_bytes + in_place_bytes,
            out_bytes: after.out_bytes - before.out_bytes,
            in_place_bytes,
            stalls,
            divergence: self.divergence.clone(),
        })
    }
}
