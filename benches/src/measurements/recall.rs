//! Batch recall: the ten nearest of many vectors for each of a thousand queries.

mod memory;
mod ours;
mod task;

pub(super) use task::{DIM, K, SINGLE, Task};

use super::measurement::Measurement;
use crate::Bench;
use crate::data;
use crate::measure::{Case, Round};
use crate::peer::TORCH;
use crate::report::{CaseReport, Kind};
use anyhow::{Context, Result};
use cuda_um::View;
use memory::Targets;
use ours::Ours;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::path::PathBuf;
use task::write;
use um_search::{ExactTopK, Filter, Metric, SearchBuffers, TargetScalar, TopKShape};

pub(super) const MEASUREMENT: Measurement = Measurement {
    name: "recall",
    what: "For each query the 10 targets of the highest cosine, exact, in single precision: queries × targets × 768, random unit \
           vectors, targets in device memory, queries (fresh each round) and results prefetched. The kernels and the wait are timed; \
           ours compute the norms each time, PyTorch (matmul, then topk) does not. The first queries of each round are \
           verified with the CPU reference, and the lists found with a filter are compared bit for bit with those found without. \
           Prepared targets are converted before the timed part. Targets in half precision are rounded: their lists differ. In \
           pieces: the copy for the filter is in pinned memory, because the limit of device memory is a third of the rows' bytes.",
    run,
    notes,
};

/// Targets, and numbers of queries. 250,000 targets fit into the managed memory that a measurement may use.
const SIZES: [(usize, &[usize]); 4] = [
    (10_000, &[1000]),
    (100_000, &[1000]),
    (250_000, &[1000]),
    (1_000_000, &[1000, 1, 10]),
];
/// The allowed rounding error of a cosine in tf32 and in bf16 (its results also have 8 bits).
const TF32: f32 = 4e-3;
const BF16: f32 = 2e-2;

const UNFILTERED: &str = "cuda-um, CosineTopK";
const FILTERED: &str = "cuda-um, ExactTopK";

fn run(bench: &Bench, cases: &mut Vec<CaseReport>) -> Result<()> {
    let sizes = match (bench.clock.is_simulated(), bench.settings.quick) {
        // The simulator runs the CPU reference.
        (true, true) => &[(1000, &[100][..])][..],
        (true, false) => &[(10_000, &[1000][..])][..],
        (false, true) => &SIZES[..2],
        (false, false) => &SIZES[..],
    };
    for (targets, queries) in sizes {
        targets_of(bench, *targets, queries, cases)?;
    }
    Ok(())
}

/// The cases of some targets, which the peer loads once.
fn targets_of(
    bench: &Bench,
    count: usize,
    queries: &[usize],
    cases: &mut Vec<CaseReport>,
) -> Result<()> {
    let files = Files::new()?;
    let mut vectors = vec![0.0; count * DIM];
    data::fill_unit_vectors(&mut vectors, DIM, u64::MAX);
    let peer = bench.peers.get(TORCH);
    let mut loaded = Value::Null;
    if let Ok(peer) = &peer {
        write(&files.targets(), &vectors)?;
        let request = json!({"do": "recall_load", "targets": files.targets(), "dim": DIM});
        loaded = peer.borrow_mut().ask(&request)?;
    }
    let search = ExactTopK::load(&bench.device)?;
    let memory = Targets::new(bench, &search, &vectors)?;
    for &queries in queries {
        let file = peer.is_ok().then(|| files.queries());
        let contenders = Contenders {
            bench,
            shape: TopKShape {
                queries,
                targets: count,
                dim: DIM,
                k: K,
            },
            search: &search,
            memory: &memory,
            ours: &RefCell::new(Ours::new(&bench.device, queries)?),
            task: &RefCell::new(Task::new(queries, &vectors, file)),
        };
        cases.push(contenders.case(&files, &loaded["others"])?);
    }
    if let Ok(peer) = peer {
        peer.borrow_mut().ask(&json!({"do": "recall_free"}))?;
    }
    Ok(())
}

/// The contenders of one size.
#[derive(Clone, Copy)]
struct Contenders<'a> {
    bench: &'a Bench,
    shape: TopKShape,
    search: &'a ExactTopK,
    memory: &'a Targets,
    ours: &'a RefCell<Ours>,
    task: &'a RefCell<Task<'a>>,
}

impl<'a> Contenders<'a> {
    fn case(self, files: &Files, others: &Value) -> Result<CaseReport> {
        let TopKShape {
            queries, targets, ..
        } = self.shape;
        let bytes = targets * DIM * size_of::<f32>();
        let mut case = Case::new(format!("{queries} × {targets} × {DIM}"), bytes, 1);
        self.unfiltered(&mut case)?;
        match (self.search.kernels(), &self.memory.prepared) {
            (Ok(kernels), Ok(_)) => self.filtered(&mut case, kernels.name())?,
            (Err(why), _) => case.skipped(Kind::Ours, FILTERED, why),
            (_, Err(why)) => case.skipped(Kind::Ours, FILTERED, why),
        }
        self.peers(&mut case, files, others);
        let mut settings = self.bench.settings;
        let rounds = if settings.quick { 7 } else { 11 };
        settings.rounds = settings.rounds.or(Some(rounds));
        Ok(case.run(&self.bench.clock, &settings))
    }

    fn add<T: TargetScalar>(
        self,
        case: &mut Case<'a>,
        name: &str,
        targets: View<'a, T>,
        launch: impl Fn(SearchBuffers<'_, T>) -> um_search::Result<()> + 'a,
    ) {
        let keeps = name == UNFILTERED;
        case.ours(name, move |round| {
            let mut ours = self.ours.borrow_mut();
            let time = ours.sample(self.bench, round, self.task, targets, &launch)?;
            if keeps {
                ours.keep(round);
            }
            Ok(time)
        });
    }

    fn one_call<T: TargetScalar>(
        self,
        case: &mut Case<'a>,
        name: &str,
        targets: View<'a, T>,
        filter: Filter,
    ) {
        self.add(case, name, targets, move |buffers| {
            let (search, stream) = (self.search, &self.bench.stream);
            let path = search.launch(stream, self.shape, Metric::Cosine, filter, buffers);
            path.map(drop)
        });
    }

    fn unfiltered(self, case: &mut Case<'a>) -> Result<()> {
        let memory = self.memory;
        self.one_call(case, UNFILTERED, memory.device.view(..)?, Filter::Off);
        let half = memory.half.view(..)?;
        self.one_call(
            case,
            &format!("{UNFILTERED}, f16 targets"),
            half,
            Filter::Off,
        );
        Ok(())
    }

    fn filtered(self, case: &mut Case<'a>, kernels: &str) -> Result<()> {
        let memory = self.memory;
        let named = |what: &str| format!("{FILTERED}, {kernels}, {what}");
        let device = memory.device.view(..)?;
        self.one_call(case, &named("Auto"), device, Filter::Auto);
        self.one_call(
            case,
            &named("Auto, f16 targets"),
            memory.half.view(..)?,
            Filter::Auto,
        );
        let mut prepared = |what: &str, rows, targets: &'a _| {
            self.add(case, &named(what), rows, move |buffers| {
                let (search, stream) = (self.search, &self.bench.stream);
                let path = search.launch_prepared(stream, self.shape, targets, buffers);
                path.map(drop)
            });
        };
        if let Ok(targets) = &memory.prepared {
            prepared("prepared f16", device, targets);
            if let Some(targets) = &memory.prepared_int8 {
                prepared("prepared int8", device, targets);
            }
            if let Some(pinned) = &memory.pinned {
                let rows = pinned.view(..)?;
                prepared("prepared f16, rows in pinned memory", rows, targets);
            }
        }
        if let (Some(rows), Some(targets)) = (&memory.unified, &memory.unified_prepared) {
            let rows = rows.view(..)?;
            prepared("prepared f16, rows in unified memory", rows, targets);
            self.one_call(case, &named("Auto, unified memory"), rows, Filter::Auto);
        }
        if let (Some(rows), Some(pieces)) = (&memory.pinned, &memory.pieces) {
            let name = named("prepared f16 in pieces, rows in pinned memory");
            self.add(case, &name, rows.view(..)?, move |buffers| {
                let (search, stream) = (self.search, &self.bench.stream);
                let pieces = &mut pieces.borrow_mut();
                let path = search.launch_within(stream, self.shape, pieces, buffers, drop);
                path.map(drop)
            });
        }
        Ok(())
    }

    fn peers(self, case: &mut Case<'a>, files: &Files, others: &Value) {
        for (name, precision, tolerance) in [
            ("PyTorch matmul + topk, fp32", "fp32", SINGLE),
            ("PyTorch matmul + topk, tf32", "tf32", TF32),
            ("PyTorch matmul + topk, bf16", "bf16", BF16),
            ("FAISS knn_gpu", "faiss", SINGLE),
            ("cuVS brute force", "cuvs", SINGLE),
        ] {
            let library = ["faiss", "cuvs"].contains(&precision);
            let found = others
                .as_array()
                .is_some_and(|others| others.iter().any(|one| one == precision));
            if library && !found {
                case.skipped(Kind::Peer, name, "Python cannot import it");
                continue;
            }
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

/// The ratios that the goals state.
fn notes(cases: &[CaseReport]) -> Vec<String> {
    cases.iter().flat_map(notes_of).collect()
}

fn notes_of(case: &CaseReport) -> Vec<String> {
    let named = |end: &str| {
        let ours = |name: &str| name.starts_with(FILTERED) && name.ends_with(end);
        case.contenders.iter().find(|one| ours(&one.name))
    };
    let time = |end| case.median(&named(end)?.name);
    let mut notes = Vec::new();
    for precision in ["fp32", "tf32", "bf16"] {
        let torch = case.median(&format!("PyTorch matmul + topk, {precision}"));
        for (what, ours) in [
            ("one call", time(", Auto")),
            ("prepared in f16", time(", prepared f16")),
            ("prepared in 8 bits", time(", prepared int8")),
        ] {
            if let (Some(torch), Some(ours)) = (torch, ours) {
                let ratio = torch / ours;
                notes.push(format!(
                    "{}: PyTorch {precision} takes {ratio:.1} times as long as {what}",
                    case.label
                ));
            }
        }
    }
    for (of, with) in [
        (", Auto", "Auto, unified memory"),
        (", prepared f16", "rows in unified memory"),
    ] {
        if let (Some(device), Some(unified)) = (time(of), time(with)) {
            let ratio = unified / device;
            notes.push(format!(
                "{}: {with} takes {ratio:.3} times as long as device memory",
                case.label
            ));
        }
    }
    notes
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
