//! The main job: cosine top-k of every query through `dyn Buffer`, once for each implementation.

use crate::Failure;
use crate::args::{Args, BufferKind};
use crate::budget;
use crate::devices::Several;
use crate::input::Inputs;
use crate::machine::{Lap, Laps, Machine};
use crate::npy::Values;
use crate::place::{Notes, Role, place_results, place_vectors};
use crate::profile;
use crate::progress::Progress;
use crate::report::{
    BothWays, CudaUse, Faults, Filtering, Match, PredictedPhases, Report, Run, microseconds,
};
use crate::search::{Buffers, batches, search};
use std::cell::RefCell;
use um_backend::{Buffer, CudaBackend, Element, HostBuffer, UnifiedBuffer};
use um_search::{
    ExactTopK, Filter, PiecewiseTargets, SearchBuffers, SearchCounts, SearchPath, TargetScalar,
    TopKShape,
};

/// Runs the search with every buffer implementation that the command line names.
///
/// # Errors
/// There is no runtime, or a call failed; the message is one line.
pub fn run(args: &Args, inputs: &mut Inputs) -> Result<Report, Failure> {
    // Apart from what is known of them: on some machines the vectors are the buffers.
    let queries = RefCell::new(std::mem::take(&mut inputs.queries));
    let none = Values::F32(Vec::new());
    let (report, values) = match std::mem::replace(&mut inputs.targets.values, none) {
        Values::F32(targets) => {
            let targets = RefCell::new(targets);
            let report = run_with(args, inputs, &targets, &queries);
            (report, Values::F32(targets.into_inner()))
        }
        Values::F16(targets) => {
            let targets = RefCell::new(targets);
            let report = run_with(args, inputs, &targets, &queries);
            (report, Values::F16(targets.into_inner()))
        }
    };
    (inputs.targets.values, inputs.queries) = (values, queries.into_inner());
    report
}

fn run_with<T: Element + TargetScalar>(
    args: &Args,
    inputs: &Inputs,
    targets: &RefCell<Vec<T>>,
    queries: &RefCell<Vec<f32>>,
) -> Result<Report, Failure> {
    let kinds = args.kinds()?;
    let machine = Machine::open(args.runtime)?;
    let kernel = ExactTopK::load(machine.device())?;
    let several = args.devices.as_ref();
    let several = several.map(|devices| Several::open(&machine, devices));
    let several = several.transpose()?;
    let job = Job {
        machine: &machine,
        kernel: &kernel,
        several: several.as_ref(),
        inputs,
        queries,
        hints: !args.no_hints && !args.auto_prefetch,
        filter: args.filter.into(),
        budget: args.budget,
    };
    let run_once = |kind| job.run(kind, targets);
    let run_kind = |kind| match args.auto_prefetch && kind == BufferKind::Unified {
        true => planned(&machine, || run_once(kind)),
        false => run_once(kind),
    };
    let mut uncounted = None;
    if machine.simulator().is_none() {
        uncounted = match (args.no_counters, args.is_profiled()) {
            (true, _) => Some("--no-counters".to_owned()),
            // CUPTI supports only one of the two.
            (false, true) => Some("--trace or --profile".to_owned()),
            (false, false) => machine
                .backend
                .start_counting()
                .err()
                .map(|why| why.to_string()),
        };
        // Costs that a GPU program has only once count for no implementation: loading the kernels, their workspace, and with
        // counters some 20 ms at the first managed memory.
        for kind in &kinds {
            if *kind != BufferKind::Host {
                run_kind(*kind)?;
            }
        }
    }
    let run_all = || kinds.iter().copied().map(run_kind).collect();
    let runs: Result<_, Failure> = match args.is_profiled() {
        false => run_all(),
        true => {
            let (runs, trace) = machine.backend.profile(run_all)?;
            profile::write(args, &trace, &machine.device().cost_model())?;
            runs
        }
    };
    let runs = runs?;
    let runtime = if machine.simulator().is_some() {
        "sim"
    } else {
        "cuda"
    };
    Ok(Report {
        runtime,
        device: machine.device().name().to_owned(),
        runs,
        uncounted,
    })
}

/// Runs the job in a scope of automatic prefetch: two times to record it, two times with a plan. Returns the last run.
fn planned(machine: &Machine, run: impl Fn() -> Result<Run, Failure>) -> Result<Run, Failure> {
    let rounds = || (0..4).try_fold(None, |_, _| run().map(Some));
    let (last, report) = machine.backend.auto_prefetch(rounds)?;
    let mut last = last?.ok_or("there was no run")?;
    last.notes.push(report.to_string());
    Ok(last)
}

struct Job<'a> {
    machine: &'a Machine,
    kernel: &'a ExactTopK,
    several: Option<&'a Several>,
    inputs: &'a Inputs,
    queries: &'a RefCell<Vec<f32>>,
    hints: bool,
    filter: Filter,
    budget: Option<usize>,
}

/// The buffers of a run.
struct Placed<T: Element> {
    targets: Box<dyn Buffer<T>>,
    /// Their copy for the filter, with a budget.
    prepared: Option<PiecewiseTargets>,
    queries: Box<dyn Buffer<f32>>,
    scores: Box<dyn Buffer<f32>>,
    indices: Box<dyn Buffer<u32>>,
}

impl<T: Element + TargetScalar> Placed<T> {
    /// The results of all queries: cosines and rows of targets.
    fn to_vec(&self) -> Result<(Vec<f32>, Vec<u32>), Failure> {
        let mut cosines = vec![0.0; self.scores.len()];
        let mut rows = vec![0; self.indices.len()];
        self.scores.copy_to_host(&mut cosines)?;
        self.indices.copy_to_host(&mut rows)?;
        Ok((cosines, rows))
    }
}

impl Job<'_> {
    fn run<T: Element + TargetScalar>(
        &self,
        kind: BufferKind,
        values: &RefCell<Vec<T>>,
    ) -> Result<Run, Failure> {
        let backend = &self.machine.backend;
        let mut notes = Notes::default();
        let before = backend.migration_counts();
        let used = self.machine.simulator().map(CudaUse::of);
        let mut laps = Laps::start(self.machine.simulator());
        let mut placed = self.place(kind, values, &mut notes)?;
        let place = laps.lap();
        let counts = self.counts()?;
        // Freed at the end: pinned memory takes some milliseconds.
        let mut prepared = placed.prepared.take();
        let path = match (&mut prepared, self.several) {
            (Some(prepared), _) => Some(self.search_within(prepared, &mut placed)?),
            (None, Some(several)) => {
                let queries = placed.queries.host()?;
                several.search(
                    self.shape(),
                    self.filter,
                    &*placed.targets,
                    &queries,
                    (&mut *placed.scores, &mut *placed.indices),
                )?
            }
            (None, None) => self.search(kind, &mut placed)?,
        };
        let compute = laps.lap();
        let (cosines, rows) = placed.to_vec()?;
        let to_vec = laps.lap();
        give_back(placed.targets, values)?;
        give_back(placed.queries, self.queries)?;

        let hits = rows.iter().zip(&cosines);
        let hits: Vec<Match> = hits
            .map(|(&target, &cosine)| Match { target, cosine })
            .collect();
        let found = hits.chunks_exact(self.shape().k).map(<[Match]>::to_vec);
        let mut run = Run::new(kind, self.inputs, found.collect());
        run.notes = notes.into_vec();
        let is_one = self.budget.is_none() && self.several.is_none();
        run.memory = match adopts(backend, kind.into()) && is_one {
            true => "the vectors themselves, without a copy".to_owned(),
            false => format!(
                "copies of the vectors: {kind:?} memory of {}, whose pageable memory access is {}",
                self.machine.device().name(),
                backend.device().capabilities().pageable_memory_access
            ),
        };
        run.cuda = self
            .machine
            .simulator()
            .map(CudaUse::of)
            .zip(used)
            .map(|(now, before)| now.since(before));
        let counts = self.counts()?.since(counts);
        run.filter = path.map(|path| Filtering::new(path, counts, self.shape().queries));
        run.phases_us.place = microseconds(place.wall);
        run.phases_us.compute = microseconds(compute.wall);
        run.phases_us.to_vec = microseconds(to_vec.wall);
        if kind != BufferKind::Host {
            run.predicted_us = predicted(place, compute, to_vec);
        }
        if let (Some(before), Some(now)) = (before, backend.migration_counts()) {
            run.migrated_bytes = BothWays {
                to_device: Some(now.bytes_to_device - before.bytes_to_device),
                to_host: Some(now.bytes_to_host - before.bytes_to_host),
            };
            run.page_faults = Faults {
                device: Some(now.gpu_faults - before.gpu_faults),
                host: Some(now.cpu_faults - before.cpu_faults),
            };
        }
        Ok(run)
    }

    /// Makes the buffers, and places the vectors.
    fn place<T: Element + TargetScalar>(
        &self,
        kind: BufferKind,
        values: &RefCell<Vec<T>>,
        notes: &mut Notes,
    ) -> Result<Placed<T>, Failure> {
        let backend = &self.machine.backend;
        let shape = self.shape();
        let results = shape.queries * shape.k;
        if let Some(several) = self.several {
            return Ok(Placed {
                targets: several.place(kind, &values.borrow(), shape.dim, notes)?,
                prepared: None,
                // The search copies them to each device, and its lists to the host.
                queries: Box::new(HostBuffer::from_slice(&self.queries.borrow())?),
                scores: Box::new(HostBuffer::zeroed(results)?),
                indices: Box::new(HostBuffer::zeroed(results)?),
            });
        }
        let kind_of_targets = match self.budget {
            Some(_) => um_backend::BufferKind::Pinned,
            None => kind.into(),
        };
        let bytes = size_of_val(&values.borrow()[..]);
        let targets = self.vectors(kind_of_targets, values, Role::Targets, notes)?;
        let queries = self.vectors(kind.into(), self.queries, Role::Queries, notes)?;
        let mut scores = zeros::<f32>(backend, kind.into(), results)?;
        let mut indices = zeros::<u32>(backend, kind.into(), results)?;
        scores.set_name("scores");
        indices.set_name("indices");
        if self.hints {
            place_results(&mut *scores, notes)?;
            place_results(&mut *indices, notes)?;
        }
        let stream = backend.device().stream();
        let prepare =
            |budget| budget::prepare(self.kernel, (stream, self.filter), &*targets, shape, budget);
        let prepared = self.budget.map(prepare).transpose()?;
        if let Some(prepared) = &prepared {
            notes.add_text(budget::note(prepared, bytes));
        }
        stream.synchronize()?;
        Ok(Placed {
            targets,
            prepared,
            queries,
            scores,
            indices,
        })
    }

    /// Makes a buffer of vectors: the vectors themselves if the device accesses them, otherwise a copy.
    fn vectors<T: Element>(
        &self,
        kind: um_backend::BufferKind,
        values: &RefCell<Vec<T>>,
        role: Role,
        notes: &mut Notes,
    ) -> Result<Box<dyn Buffer<T>>, Failure> {
        let backend = &self.machine.backend;
        let (name, with_hints) = (role.name(), self.hints.then_some(role));
        if !adopts(backend, kind) {
            let mut copy = backend.create::<T>(kind, values.borrow().len())?;
            copy.set_name(name);
            place_vectors(&mut *copy, Some(&values.borrow()), with_hints, notes)?;
            return Ok(copy);
        }
        let mut adopted = backend.create_from_vec(kind, values.take())?;
        adopted.set_name(name);
        place_vectors(&mut *adopted, None, with_hints, notes)?;
        Ok(adopted)
    }

    /// Searches batch by batch, and returns the method of the last.
    fn search<T: Element + TargetScalar>(
        &self,
        kind: BufferKind,
        placed: &mut Placed<T>,
    ) -> Result<Option<SearchPath>, Failure> {
        let (machine, shape) = (self.machine, self.shape());
        let stream = machine.backend.device().stream();
        let mut path = None;
        let progress = Progress::new(kind, shape.queries, "queries");
        let in_batches = kind == BufferKind::Host || machine.simulator().is_some();
        for batch in batches(shape, in_batches) {
            let done = batch.end;
            let buffers = Buffers {
                queries: &*placed.queries,
                targets: &*placed.targets,
                scores: &mut *placed.scores,
                indices: &mut *placed.indices,
            };
            path = Some(search(
                self.kernel,
                self.filter,
                stream,
                shape,
                batch,
                buffers,
            )?);
            progress.at(done);
        }
        Ok(path)
    }

    fn counts(&self) -> Result<SearchCounts, Failure> {
        match self.several {
            Some(several) => several.counts(),
            None => Ok(self.kernel.counts()?),
        }
    }

    /// Searches within the budget.
    fn search_within<T: Element + TargetScalar>(
        &self,
        prepared: &mut PiecewiseTargets,
        placed: &mut Placed<T>,
    ) -> Result<SearchPath, Failure> {
        let stream = self.machine.backend.device().stream();
        let buffers = SearchBuffers {
            queries: placed.queries.memory().device_view()?,
            targets: placed.targets.memory().device_view()?,
            scores: placed.scores.memory_mut().device_view_mut()?,
            indices: placed.indices.memory_mut().device_view_mut()?,
        };
        budget::search(self.kernel, stream, self.shape(), prepared, buffers)
    }

    fn shape(&self) -> TopKShape {
        let inputs = self.inputs;
        TopKShape {
            queries: inputs.query_count,
            targets: inputs.targets.rows,
            dim: inputs.targets.columns,
            k: inputs.computed_k(),
        }
    }
}

/// Whether buffers of a kind are vectors that exist.
fn adopts(backend: &CudaBackend, kind: um_backend::BufferKind) -> bool {
    use um_backend::BufferKind::{Host, Unified};
    let accesses = backend.device().capabilities().pageable_memory_access;
    accesses && matches!(kind, Host | Unified)
}

fn zeros<T: Element>(
    backend: &CudaBackend,
    kind: um_backend::BufferKind,
    len: usize,
) -> Result<Box<dyn Buffer<T>>, Failure> {
    Ok(match adopts(backend, kind) {
        true => backend.create_from_vec(kind, vec![T::zeroed(); len])?,
        false => backend.create(kind, len)?,
    })
}

/// Puts the vector of an adopting buffer back.
fn give_back<T: Element>(
    mut buffer: Box<dyn Buffer<T>>,
    values: &RefCell<Vec<T>>,
) -> Result<(), Failure> {
    if !values.borrow().is_empty() {
        return Ok(());
    }
    let any = buffer.as_any_mut();
    if let Some(host) = any.downcast_mut::<HostBuffer<T>>() {
        let host = std::mem::replace(host, HostBuffer::from_vec(Vec::new()));
        values.replace(host.into_vec());
    } else if let Some(unified) = any.downcast_mut::<UnifiedBuffer<T>>() {
        let none = unified.zeroed_like(0)?;
        values.replace(std::mem::replace(unified, none).into_vec()?);
    }
    Ok(())
}

fn predicted(place: Lap, compute: Lap, to_vec: Lap) -> Option<PredictedPhases> {
    Some(PredictedPhases {
        place: microseconds(place.simulated?),
        compute: microseconds(compute.simulated?),
        to_vec: microseconds(to_vec.simulated?),
    })
}
