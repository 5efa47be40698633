//! The search with each kind of buffer.

use crate::{Failure, inputs::Inputs};
use indicatif::{ProgressBar, ProgressFinish};
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};
use um_backend::profile::{MigrationCounts, trace};
use um_backend::{
    Advice, Buffer, BufferKind, CudaBackend, CudaBackendConfig, Element, Location, UnifiedBuffer,
};
use um_kernels::{CosineTopK, TopKShape, cosine_top_k_cpu};

/// Searches with every kind of buffer that the command line names, and returns the object that `--json` prints.
pub fn run(args: &crate::args::Args, inputs: &Inputs) -> Result<Value, Failure> {
    let config = CudaBackendConfig::default().runtime(args.runtime());
    let backend = &CudaBackend::initialize_blocking(config)?;
    let (kernel, hints) = (CosineTopK::load(backend.device())?, !args.no_hints);
    let job = Job {
        backend,
        kernel,
        inputs,
        hints,
    };
    let is_profiled = args.trace.is_some() || args.profile.is_some();
    if !backend.is_simulated() {
        // CUPTI supports only one of the two.
        if let (false, Err(why)) = (is_profiled, backend.start_counting()) {
            eprintln!("migrations are not counted: {why}");
        }
        // What a program does only once counts for no kind: loading the kernel, and preparing the counters.
        for kind in args.kinds().filter(|kind| *kind != BufferKind::Host) {
            job.run(kind)?;
        }
    }
    let run_all = || args.kinds().map(|kind| job.run(kind)).collect();
    let runs: Result<Value, Failure> = if is_profiled {
        let (runs, trace) = backend.profile(run_all)?;
        let costs = backend.device().cost_model();
        let page = trace::html(&trace, &trace::MigrationReport::of(&trace, &costs));
        for (path, text) in [(&args.trace, trace.to_json()), (&args.profile, page)] {
            path.iter().try_for_each(|path| write(path, &text))?;
        }
        runs
    } else {
        run_all()
    };
    Ok(json!({
        "runtime": if backend.is_simulated() { "sim" } else { "cuda" },
        "device": backend.device().name(),
        "description": backend.runtime_description(),
        "runs": runs?,
    }))
}

/// Writes a file.
pub fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()).into())
}

struct Job<'a> {
    backend: &'a CudaBackend,
    kernel: CosineTopK,
    inputs: &'a Inputs,
    hints: bool,
}

/// The buffers of a run.
struct Placed {
    targets: Box<dyn Buffer<f32>>,
    queries: Box<dyn Buffer<f32>>,
    scores: Box<dyn Buffer<f32>>,
    indices: Box<dyn Buffer<u32>>,
}

impl Job<'_> {
    fn run(&self, kind: BufferKind) -> Result<Value, Failure> {
        let (inputs, k) = (self.inputs, self.inputs.computed_k);
        let (results, mut notes) = (inputs.queries.rows * k, Vec::new());
        let before = self.backend.migration_counts();
        let start = self.now();
        let mut placed = Placed {
            targets: self.place(kind, "targets", &inputs.targets.values, 0, &mut notes)?,
            queries: self.place(kind, "queries", &inputs.queries.values, 0, &mut notes)?,
            scores: self.place(kind, "scores", &[], results, &mut notes)?,
            indices: self.place(kind, "indices", &[], results, &mut notes)?,
        };
        self.backend.synchronize()?;
        let filled = self.now();
        self.search(kind, &mut placed)?;
        let computed = self.now();
        let (scores, indices) = (placed.scores.to_vec()?, placed.indices.to_vec()?);
        let laps = [(start, filled), (filled, computed), (computed, self.now())];
        let after = self.backend.migration_counts();

        let us = |time: Duration| (time.as_secs_f64() * 1e7).round() / 10.0;
        let wall = laps.map(|(begin, end)| us(end.0 - begin.0));
        let predicted = laps.map(|(begin, end)| Some(us(end.1? - begin.1?)));
        let is_predicted = self.backend.is_simulated() && kind != BufferKind::Host;
        let recall = |n: usize| {
            let own = indices.chunks(k).zip(0..);
            let hits = own.filter(|(list, query)| list.iter().take(n).any(|hit| hit == query));
            let share = hits.count() as f64 / inputs.queries.rows as f64;
            inputs.has_truth.then_some(share)
        };
        let top = indices
            .chunks(k)
            .zip(scores.chunks(k))
            .map(|(indices, scores)| {
                let hits = indices.iter().zip(scores).take(inputs.k);
                hits.map(|(target, cosine)| json!({"target": target, "cosine": cosine}))
                    .collect()
            });
        let count =
            |of: fn(&MigrationCounts) -> u64| Some(of(after.as_ref()?) - of(before.as_ref()?));
        Ok(json!({
            "buffer": kind.to_string(),
            "recall_at_1": recall(1),
            "recall_at_10": recall(10),
            "phases_us": {"load": us(inputs.load), "place": wall[0], "compute": wall[1], "to_vec": wall[2]},
            "predicted_us": is_predicted.then(|| {
                json!({"place": predicted[0], "compute": predicted[1], "to_vec": predicted[2]})
            }),
            "migrated_bytes": {"to_device": count(|now| now.bytes_to_device), "to_host": count(|now| now.bytes_to_host)},
            "page_faults": {"device": count(|now| now.gpu_faults), "host": count(|now| now.cpu_faults)},
            "notes": notes,
            "top": top.collect::<Vec<Value>>(),
        }))
    }

    /// The wall clock, and the simulator's.
    fn now(&self) -> (Instant, Option<Duration>) {
        let simulated = self.backend.simulator().map(|sim| sim.now());
        (Instant::now(), simulated)
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
        if !self.hints {
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
        let (queries, targets) = (self.inputs.queries.rows, self.inputs.targets.rows);
        let (dim, k) = (self.inputs.targets.dim, self.inputs.computed_k);
        let is_slow = kind == BufferKind::Host || self.backend.is_simulated();
        let products: usize = if is_slow { 1 << 30 } else { 1 << 40 };
        let batch = (products / placed.targets.len()).max(64);
        let bar = ProgressBar::new(queries as u64).with_finish(ProgressFinish::AndClear);
        for first in (0..queries).step_by(batch) {
            let end = queries.min(first + batch);
            let (rows, lists) = (first * dim..end * dim, first * k..end * k);
            if kind == BufferKind::Host {
                let mut scores = placed.scores.host_mut()?;
                let mut indices = placed.indices.host_mut()?;
                let lists = (&mut scores[lists.clone()], &mut indices[lists]);
                let rows = (&placed.queries.host()?[rows], &placed.targets.host()?[..]);
                cosine_top_k_cpu(rows.0, rows.1, dim, k, lists.0, lists.1);
            } else {
                let stream = self.backend.device().stream();
                let shape = TopKShape {
                    queries: end - first,
                    targets,
                    dim,
                    k,
                };
                let queries = placed.queries.memory().device_view()?.slice(rows)?;
                let targets = placed.targets.memory().device_view()?;
                let scores = placed
                    .scores
                    .memory_mut()
                    .device_view_mut()?
                    .slice(lists.clone())?;
                let indices = placed
                    .indices
                    .memory_mut()
                    .device_view_mut()?
                    .slice(lists)?;
                self.kernel
                    .launch(stream, shape, queries, targets, scores, indices)?;
                stream.synchronize()?;
            }
            bar.set_position(end as u64);
        }
        Ok(())
    }
}
