//! Batch recall: the ten nearest of many vectors for each of a thousand queries.

mod task;

pub(super) use task::{DIM, K, SINGLE, Task};

use super::measurement::Measurement;
use crate::Bench;
use crate::data;
use crate::measure::{Case, Round};
use crate::peer::TORCH;
use crate::report::{CaseReport, Kind};
use anyhow::{Context, Result};
use cuda_um::{Device, DeviceBuffer, UnifiedBuffer};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::path::PathBuf;

use std::time::Duration;
use task::write;
use um_kernels::{ExactTopK, Filter, Format, Metric, PreparedTargets, SearchBuffers, TopKShape};

pub(super) const MEASUREMENT: Measurement = Measurement {
    name: "recall",
    what: "For each query the 10 targets of the highest cosine, exact, in single precision: queries × targets × 768, random unit \
           vectors, targets in device memory, queries (fresh each round) and results prefetched. The kernels and the wait are timed; \
           ours compute the norms each time, PyTorch (matmul, then topk) does not. The first queries of each round are \
           verified with the CPU reference, and the lists found with a filter are compared bit for bit with those found without. \
           Prepared targets are converted before the timed part.",
    run,
    notes: super::measurement::no_notes,
};

/// The allowed rounding error of a cosine in tf32 and in bf16 (its results also have 8 bits).
const TF32: f32 = 4e-3;
const BF16: f32 = 2e-2;

fn run(bench: &Bench, cases: &mut Vec<CaseReport>) -> Result<()> {
    let (queries, targets) = match (bench.clock.is_simulated(), bench.settings.quick) {
        // The simulator runs the CPU reference.
        (true, true) => (&[100][..], &[1000][..]),
        (true, false) => (&[1000][..], &[10_000][..]),
        (false, true) => (&[1000][..], &[10_000, 100_000][..]),
        (false, false) => (&[1000][..], &[10_000, 100_000, 1_000_000][..]),
    };
    for &queries in queries {
        for &targets in targets {
            cases.push(case(bench, queries, targets)?);
        }
    }
    Ok(())
}

fn case(bench: &Bench, queries: usize, targets: usize) -> Result<CaseReport> {
    let (device, stream) = (&bench.device, &bench.stream);
    let files = Files::new()?;
    let mut vectors = vec![0.0; targets * DIM];
    data::fill_unit_vectors(&mut vectors, DIM, u64::MAX);
    let peer = bench.peers.get(TORCH);
    if let Ok(peer) = &peer {
        write(&files.targets(), &vectors)?;
        peer.borrow_mut()
            .ask(&json!({"do": "recall_load", "targets": files.targets(), "dim": DIM}))?;
    }
    let shape = TopKShape {
        queries,
        targets,
        dim: DIM,
        k: K,
    };
    let search = ExactTopK::load(device)?;
    let on_device = DeviceBuffer::from_slice(device, &vectors)?;
    let rows = on_device.view(..)?;
    let prepared = search
        .prepare(stream, rows, DIM, Metric::Cosine, Format::F16)
        .map_err(|error| error.to_string());
    let ours = RefCell::new(Ours::new(device, queries)?);
    let file = peer.is_ok().then(|| files.queries());
    let contenders = Contenders {
        bench,
        shape,
        search: &search,
        targets: &on_device,
        ours: &ours,
        task: &RefCell::new(Task::new(queries, &vectors, file)),
    };
    let bytes = targets * DIM * size_of::<f32>();
    let mut case = Case::new(format!("{queries} × {targets} × {DIM}"), bytes, 1);
    contenders.unfiltered(&mut case);
    match (search.kernels(), &prepared) {
        (Ok(kernels), Ok(prepared)) => {
            let name = format!("cuda-um, ExactTopK, {}", kernels.name());
            contenders.filtered(&mut case, &name, prepared);
        }
        (Err(why), _) => case.skipped(Kind::Ours, "cuda-um, ExactTopK", why),
        (_, Err(why)) => case.skipped(Kind::Ours, "cuda-um, ExactTopK", why),
    }
    contenders.peers(&mut case, &files);
    let mut settings = bench.settings;
    settings.rounds = settings
        .rounds
        .or(Some(if settings.quick { 7 } else { 11 }));
    let report = case.run(&bench.clock, &settings);
    if let Ok(peer) = peer {
        peer.borrow_mut().ask(&json!({"do": "recall_free"}))?;
    }
    Ok(report)
}

/// The contenders of one size.
#[derive(Clone, Copy)]
struct Contenders<'a> {
    bench: &'a Bench,
    shape: TopKShape,
    search: &'a ExactTopK,
    targets: &'a DeviceBuffer<f32>,
    ours: &'a RefCell<Ours>,
    task: &'a RefCell<Task<'a>>,
}

impl<'a> Contenders<'a> {
    fn launch(self, filter: Filter, buffers: SearchBuffers<'_, f32>) -> um_kernels::Result<()> {
        self.search
            .launch(
                &self.bench.stream,
                self.shape,
                Metric::Cosine,
                filter,
                buffers,
            )
            .map(drop)
    }

    fn unfiltered(self, case: &mut Case<'a>) {
        case.ours("cuda-um, CosineTopK", move |round| {
            let mut ours = self.ours.borrow_mut();
            let time = ours.sample(self.bench, round, self.task, self.targets, |buffers| {
                self.launch(Filter::Off, buffers)
            })?;
            ours.unfiltered = Some((round.number, ours.lists()));
            Ok(time)
        });
    }

    fn filtered(self, case: &mut Case<'a>, name: &str, prepared: &'a PreparedTargets) {
        let Self {
            bench,
            task,
            targets,
            ..
        } = self;
        case.ours(&format!("{name}, f16"), move |round| {
            let mut ours = self.ours.borrow_mut();
            ours.sample(bench, round, task, targets, |buffers| {
                self.launch(Filter::F16, buffers)
            })
        });
        case.ours(&format!("{name}, prepared f16"), move |round| {
            let mut ours = self.ours.borrow_mut();
            ours.sample(bench, round, task, targets, |buffers| {
                self.search
                    .launch_prepared(&bench.stream, self.shape, prepared, buffers)
                    .map(drop)
            })
        });
    }

    fn peers(self, case: &mut Case<'a>, files: &Files) {
        for (name, precision, tolerance) in [
            ("PyTorch matmul + topk, fp32", "fp32", SINGLE),
            ("PyTorch matmul + topk, tf32", "tf32", TF32),
            ("PyTorch matmul + topk, bf16", "bf16", BF16),
        ] {
            let request = json!({
                "do": "recall", "queries": files.queries(), "dim": DIM, "k": K, "precision": precision,
            });
            let prepare = move |round: &Round<'_>| self.task.borrow_mut().at(round);
            let look = move |round: &mut Round<'_>, answer: &Value| {
                let found: Vec<f32> = serde_json::from_value(answer["scores"].clone())?;
                let places: Vec<u32> = serde_json::from_value(answer["best"].clone())?;
                let task = self.task.borrow();
                task.verify(round, &found, &places, tolerance)
            };
            case.peer_with(self.bench, TORCH, name, request, prepare, look);
        }
    }
}

/// The buffers of our searches, and the latest results.
struct Ours {
    asked: UnifiedBuffer<f32>,
    scores: UnifiedBuffer<f32>,
    best: UnifiedBuffer<u32>,
    found: Vec<f32>,
    places: Vec<u32>,
    /// The round in which the kernel without a filter searched, and its lists.
    unfiltered: Option<(u64, Lists)>,
}

/// Scores as bits, and indices.
type Lists = (Vec<u32>, Vec<u32>);

impl Ours {
    fn new(device: &Device, queries: usize) -> Result<Self> {
        Ok(Self {
            asked: UnifiedBuffer::zeroed(device, queries * DIM)?,
            scores: UnifiedBuffer::zeroed(device, queries * K)?,
            best: UnifiedBuffer::zeroed(device, queries * K)?,
            found: vec![0.0; queries * K],
            places: vec![0; queries * K],
            unfiltered: None,
        })
    }

    fn sample(
        &mut self,
        bench: &Bench,
        round: &mut Round<'_>,
        task: &RefCell<Task<'_>>,
        targets: &DeviceBuffer<f32>,
        launch: impl FnOnce(SearchBuffers<'_, f32>) -> um_kernels::Result<()>,
    ) -> Result<Duration> {
        let (device, stream) = (&bench.device, &bench.stream);
        let mut task = task.borrow_mut();
        task.at(round)?;
        self.asked.copy_from_host(&task.queries)?;
        self.asked.prefetch(device, stream)?;
        self.scores.prefetch(device, stream)?;
        self.best.prefetch(device, stream)?;
        stream.synchronize()?;
        let buffers = SearchBuffers {
            queries: self.asked.view(..)?,
            targets: targets.view(..)?,
            scores: self.scores.view_mut(..)?,
            indices: self.best.view_mut(..)?,
        };
        let mut launch = Some(|| launch(buffers));
        let time = round.clock.time(|| {
            launch.take().context("one launch")?()?;
            Ok(stream.synchronize()?)
        })?;
        self.scores.copy_to_host(&mut self.found)?;
        self.best.copy_to_host(&mut self.places)?;
        task.verify(round, &self.found, &self.places, SINGLE)?;
        if let Some((number, lists)) = &self.unfiltered
            && *number == round.number
        {
            let holds = *lists == self.lists();
            round.verify_that(holds, "other lists than without a filter")?;
        }
        Ok(time)
    }

    fn lists(&self) -> Lists {
        let bits = self.found.iter().map(|score| score.to_bits());
        (bits.collect(), self.places.clone())
    }
}

/// The files that pass the vectors to the peer; removed at the end.
struct Files(PathBuf);

impl Files {
    fn new() -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("um-bench-{}", std::process::id()));
        std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        Ok(Self(folder))
    }

    fn targets(&self) -> PathBuf {
        self.0.join("targets.f32")
    }

    fn queries(&self) -> PathBuf {
        self.0.join("queries.f32")
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
