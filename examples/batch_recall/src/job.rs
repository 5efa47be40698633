//! The search with each kind of buffer.

use crate::{Failure, args::Args, inputs::Inputs};
use indicatif::{ProgressBar, ProgressFinish};
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};
use um_backend::profile::{MigrationCounter, MigrationCounts, trace};
use um_backend::{
    Advice, Buffer, BufferKind, CudaBackend, CudaBackendConfig, Element, Location, UnifiedBuffer,
};
use um_kernels::{CosineTopK, TopKShape, cosine_top_k_cpu};

/// Searches with every kind of buffer that the command line names, and returns the object that `--json` prints, and whether the
/// files were written: a failure must not lose the object.
pub fn run(args: &Args, inputs: &Inputs) -> Result<(Value, Result<(), Failure>), Failure> {
    let config = CudaBackendConfig::default().runtime(args.runtime());
    let backend = CudaBackend::initialize_blocking(config)?;
    let is_simulated = backend.is_simulated();
    let is_profiled = args.trace.is_some() || args.profile.is_some();
    // CUPTI supports only one of the two.
    let counter = (!is_profiled).then(|| MigrationCounter::start(backend.device().runtime()));
    let counter = counter.and_then(|started| {
        let not_counted = |why: &_| {
            let _ = writeln!(std::io::stderr(), "migrations are not counted: {why}");
        };
        started.inspect_err(not_counted).ok()
    });
    let job = Job {
        kernel: CosineTopK::load(backend.device())?,
        backend: &backend,
        counter,
        args,
        inputs,
    };
    if !is_simulated {
        // What a program does only once counts for no kind: loading the kernel, and preparing the counters.
        for kind in args.kinds().filter(|kind| *kind != BufferKind::Host) {
            job.run(kind)?;
        }
    }
    let run_all = || args.kinds().map(|kind| job.run(kind)).collect();
    let mut written = Ok(());
    let runs: Result<Vec<_>, Failure> = if is_profiled {
        let (runs, trace) = backend.profile(run_all)?;
        let costs = backend.device().cost_model();
        let page = trace::html(&trace, &trace::MigrationReport::of(&trace, &costs));
        for (path, text) in [(&args.trace, trace.to_json()), (&args.profile, page)] {
            written = written.and(path.iter().try_for_each(|path| write(path, &text)));
        }
        runs
    } else {
        run_all()
    };
    let (runs, scores): (Vec<Value>, Vec<Vec<f32>>) = runs?.into_iter().unzip();
    let is_near = |(one, other): (&f32, &f32)| (one - other).abs() <= 1e-5;
    let agrees = |other: &Vec<f32>| other.iter().zip(&scores[0]).all(is_near);
    let report = json!({
        "runtime": if is_simulated { "sim" } else { "cuda" },
        "device": backend.device().name(),
        "on": backend.runtime_description(),
        "agree": scores.iter().all(agrees),
        "runs": runs,
    });
    Ok((report, written))
}

/// Writes a file.
pub fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()).into())
}

struct Job<'a> {
    kernel: CosineTopK,
    backend: &'a CudaBackend,
    counter: Option<MigrationCounter>,
    args: &'a Args,
    inputs: &'a Inputs,
}

/// The buffers of a run.
struct Placed {
    targets: Box<dyn Buffer<f32>>,
    queries: Box<dyn Buffer<f32>>,
    scores: Box<dyn Buffer<f32>>,
    indices: Box<dyn Buffer<u32>>,
}

impl Job<'_> {
    /// The length of the computed lists: enough for recall@10.
    fn k(&self) -> usize {
        self.args.k.max(10).min(self.inputs.targets.rows)
    }

    fn counts(&self) -> Option<MigrationCounts> {
        self.counter.as_ref()?.read().ok()
    }

    /// Returns the object of the run, and all cosines.
    fn run(&self, kind: BufferKind) -> Result<(Value, Vec<f32>), Failure> {
        let (queries, targets) = (&self.inputs.queries, &self.inputs.targets.values);
        let (results, mut notes) = (queries.rows * self.k(), Vec::new());
        let before = self.counts();
        let start = self.now(kind);
        let mut placed = Placed {
            targets: self.place(kind, "targets", targets, 0, &mut notes)?,
            queries: self.place(kind, "queries", &queries.values, 0, &mut notes)?,
            scores: self.place(kind, "scores", &[], results, &mut notes)?,
            indices: self.place(kind, "indices", &[], results, &mut notes)?,
        };
        self.backend.synchronize()?;
        let filled = self.now(kind);
        self.search(kind, &mut placed)?;
        let computed = self.now(kind);
        let (scores, indices) = (placed.scores.to_vec()?, placed.indices.to_vec()?);
        let laps = [
            (start, filled),
            (filled, computed),
            (computed, self.now(kind)),
        ];
        let after = self.counts();

        let us = |time: Duration| (time.as_secs_f64() * 1e7).round() / 10.0;
        let [place, compute, to_vec] = laps.map(|(begin, end)| us(end.0 - begin.0));
        let predicted = laps.map(|(begin, end)| Some(us(end.1? - begin.1?)));
        let recall = |n: usize| {
            let lists = indices.chunks(self.k()).zip(0..);
            let hits = lists.filter(|(list, query)| list.iter().take(n).any(|hit| hit == query));
            let share = hits.count() as f64 / queries.rows as f64;
            self.inputs.has_truth.then_some(share)
        };
        let lists = indices.chunks(self.k()).zip(scores.chunks(self.k()));
        let top = lists.map(|(targets, cosines)| -> Value {
            let hits = targets.iter().zip(cosines).take(self.args.k);
            let named = hits.map(|(target, cosine)| json!({"target": target, "cosine": cosine}));
            named.collect()
        });
        let both = before.as_ref().zip(after.as_ref());
        let count = |of: fn(&MigrationCounts) -> u64| both.map(|(old, new)| of(new) - of(old));
        let report = json!({
            "buffer": kind.to_string(),
            "recall_at_1": recall(1),
            "recall_at_10": recall(10),
            "phases_us": {"load": us(self.inputs.load), "place": place, "compute": compute, "to_vec": to_vec},
            "predicted_us": {"place": predicted[0], "compute": predicted[1], "to_vec": predicted[2]},
            "migrated_bytes": {"to_device": count(|now| now.bytes_to_device), "to_host": count(|now| now.bytes_to_host)},
            "page_faults": {"device": count(|now| now.gpu_faults), "host": count(|now| now.cpu_faults)},
            "notes": notes,
            "top": top.collect::<Value>(),
        });
        Ok((report, scores))
    }

    /// The wall clock, and the simulator's, which does not know how long the CPU computes.
    fn now(&self, kind: BufferKind) -> (Instant, Option<Duration>) {
        let simulator = self
            .backend
            .simulator()
            .filter(|_| kind != BufferKind::Host);
        (Instant::now(), simulator.map(|sim| sim.now()))
    }

    /// Makes a buffer of vectors, or one for results of this length. Unified memory gets the recipe for its role: targets prefer
    /// the device; queries, which every part of the kernel reads, are read-mostly; both are prefetched; results are accessed by
    /// both sides. Without hints the CPU writes through the pointer, and the kernel faults its data in.
    fn place<T: Element>(
        &self,
        kind: BufferKind,
        name: &str,
        values: &[T],
        results: usize,
        notes: &mut Vec<String>,
    ) -> Result<Box<dyn Buffer<T>>, Failure> {
        let mut buffer = self.backend.create::<T>(kind, values.len() + results)?;
        buffer.set_name(name);
        let Some(unified) = buffer.as_any_mut().downcast_mut::<UnifiedBuffer<T>>() else {
            buffer.copy_from_host_at(0, values)?;
            return Ok(buffer);
        };
        if self.args.no_hints {
            unified.host_mut()?[..values.len()].copy_from_slice(values);
            return Ok(buffer);
        }
        let here = Location::from(self.backend.device());
        let mut outcomes = Vec::new();
        if name == "targets" {
            // Before the copy, which then goes directly to the device.
            outcomes.push(unified.advise(Advice::SetPreferredLocation(here))?);
        }
        unified.copy_from_host_at(0, values)?;
        if name == "queries" {
            // After the copy, because a write discards the duplicates.
            outcomes.push(unified.advise(Advice::SetReadMostly)?);
        }
        if values.is_empty() {
            outcomes.push(unified.advise(Advice::SetAccessedBy(here))?);
            outcomes.push(unified.advise(Advice::SetAccessedBy(Location::Host))?);
        } else {
            outcomes.push(unified.prefetch_on(here, self.backend.device().stream())?);
        }
        outcomes.retain(|outcome| !outcome.is_applied());
        notes.extend(outcomes.iter().map(ToString::to_string));
        Ok(buffer)
    }

    /// On the device if it can access the memory, otherwise on the CPU: in batches, if they take long.
    fn search(&self, kind: BufferKind, placed: &mut Placed) -> Result<(), Failure> {
        let (rows, dim, k) = (self.inputs.queries.rows, self.inputs.targets.dim, self.k());
        let is_slow = kind == BufferKind::Host || self.backend.is_simulated();
        let products: usize = if is_slow { 1 << 30 } else { 1 << 40 };
        let batch = (products / placed.targets.len()).max(64);
        let bar = ProgressBar::new(rows as u64).with_finish(ProgressFinish::AndClear);
        for first in (0..rows).step_by(batch) {
            let count = batch.min(rows - first);
            let rows = first * dim..(first + count) * dim;
            let lists = first * k..(first + count) * k;
            if kind == BufferKind::Host {
                let mut scores = placed.scores.host_mut()?;
                let mut indices = placed.indices.host_mut()?;
                let (queries, targets) = (placed.queries.host()?, placed.targets.host()?);
                let (scores, indices) = (&mut scores[lists.clone()], &mut indices[lists]);
                cosine_top_k_cpu(&queries[rows], &targets, dim, k, scores, indices);
            } else {
                let stream = self.backend.device().stream();
                let scores = placed.scores.memory_mut().device_view_mut()?;
                let indices = placed.indices.memory_mut().device_view_mut()?;
                let shape = TopKShape {
                    queries: count,
                    targets: self.inputs.targets.rows,
                    dim,
                    k,
                };
                self.kernel.launch(
                    stream,
                    shape,
                    placed.queries.memory().device_view()?.slice(rows)?,
                    placed.targets.memory().device_view()?,
                    scores.slice(lists.clone())?,
                    indices.slice(lists)?,
                )?;
                stream.synchronize()?;
            }
            bar.inc(count as u64);
        }
        Ok(())
    }
}
