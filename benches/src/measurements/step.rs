//! A framework's day: many temporaries, small kernels on two streams, a few copies.

mod as_graph;
mod ours;
mod plan;

use super::measurement::{FACTOR, Measurement};
use crate::Bench;
use crate::measure::{Budget, Case, Round};
use crate::peer::{CUDA_CPP, CUDARC, CUPY, TORCH};
use crate::raw::Temporaries;
use crate::report::CaseReport;
use anyhow::{Result, ensure};
use plan::{CHECKED, Operations, Plan, SLOTS, Worker};
use serde_json::json;
use std::time::Duration;
use um_backend::BufferKind;

pub(super) const MEASUREMENT: Measurement = Measurement {
    name: "step",
    what: "A step of a framework: 300 temporaries are allocated and freed in stream order, at most 64 at a time, most of them small; 200 \
           kernels multiply temporaries in place on two streams; 3 slices are copied in, and one number is read back. The time of one \
           step, out of 50 in a row and the wait for all work. The number is verified in each step, and 1 MiB after the timed \
           ones. As a graph: the kernels and the temporaries are recorded once, so that a step is 3 copies, a launch and the read.",
    seconds: 30,
    run,
    notes,
};

/// A contender, and the same as a graph.
const UNIFIED: [&str; 2] = [
    "cuda-um, UnifiedBuffer",
    "cuda-um, UnifiedBuffer, as a graph",
];
const DEVICE: [&str; 2] = ["cuda-um, DeviceBuffer", "cuda-um, DeviceBuffer, as a graph"];

fn notes(cases: &[CaseReport]) -> Vec<String> {
    let pairs = cases
        .iter()
        .flat_map(|case| [UNIFIED, DEVICE].map(|pair| (case, pair)));
    let note = |(case, [name, graph]): (&CaseReport, [&str; 2])| {
        let ratio = case.median(graph)? / case.median(name)?;
        Some(format!("{graph}: {ratio:.2} of the time of {name}"))
    };
    pairs.filter_map(note).collect()
}

/// Steps in a sample. The simulator's clock needs fewer.
const STEPS: u32 = 50;
const STEPS_SIMULATED: u32 = 2;

fn run(bench: &Bench, budget: &mut Budget, cases: &mut Vec<CaseReport>) -> Result<()> {
    let plan = &Plan::new();
    let steps = match bench.clock.is_simulated() {
        true => STEPS_SIMULATED,
        false => STEPS,
    };
    let mut case = Case::new("one step", plan.bytes, CHECKED);
    let unified = ours::unified(bench)?;
    case.ours(UNIFIED[0], sampled(plan, steps, unified));
    let device = ours::device(bench)?;
    case.ours(DEVICE[0], sampled(plan, steps, device));
    let unified = as_graph::AsGraph::new(ours::unified(bench)?);
    case.ours(UNIFIED[1], sampled(plan, steps, unified));
    let device = as_graph::AsGraph::new(ours::device(bench)?);
    case.ours(DEVICE[1], sampled(plan, steps, device));
    for (name, kind) in [
        ("um-backend, dyn Buffer, unified", BufferKind::Unified),
        ("um-backend, dyn Buffer, device", BufferKind::Cuda),
    ] {
        case.ours(name, sampled(plan, steps, ours::boxed(bench, kind)?));
    }
    for (name, keeps) in [
        ("cudaMallocAsync", false),
        ("cudaMallocFromPoolAsync, memory kept", true),
    ] {
        let temporaries = Temporaries::open(&bench.table, SLOTS, keeps)?;
        case.raw(name, sampled(plan, steps, temporaries));
    }
    let factor = f64::from(FACTOR).powi(plan.scaled);
    let request =
        json!({"do": "step", "steps": steps, "plan": plan.text(), "factor": factor as u64});
    case.peer(bench, CUDA_CPP, "CUDA C++ cudaMallocAsync", request.clone());
    case.peer(bench, CUDARC, "cudarc", request.clone());
    case.peer(bench, TORCH, "PyTorch", request.clone());
    case.peer(bench, CUPY, "CuPy", request);
    cases.push(case.run(&bench.clock, &bench.settings, budget));
    Ok(())
}

/// The samples of a contender.
fn sampled<'a>(
    plan: &'a Plan,
    steps: u32,
    mut worker: impl Worker + 'a,
) -> impl FnMut(&mut Round<'_>) -> Result<Duration> + 'a {
    move |round| {
        let (source, factor) = (round.source, FACTOR.powi(plan.scaled));
        worker.finish()?;
        let time = round.clock.time(|| {
            for _ in 0..steps {
                let mut number = [f32::NAN];
                worker.step(plan, source, &mut number)?;
                let right = number[0] == source[0] * factor;
                ensure!(right, "WRONG RESULT: the number of a step");
            }
            worker.finish()
        })?;
        worker.step(plan, source, round.back)?;
        worker.finish()?;
        round.verified(time / steps, factor)
    }
}

impl Operations for Temporaries {
    fn allocate(&mut self, slot: usize, len: usize) -> Result<()> {
        Temporaries::allocate(self, slot, len)
    }

    fn fill(&mut self, slot: usize, source: &[f32]) -> Result<()> {
        Temporaries::allocate(self, slot, source.len())?;
        self.copy_from_slice(slot, source)
    }

    fn scale(&mut self, slot: usize) -> Result<()> {
        Temporaries::scale(self, slot, FACTOR)
    }

    fn read(&mut self, slot: usize, target: &mut [f32]) -> Result<()> {
        self.copy_to_slice(slot, target)
    }

    fn free(&mut self, slot: usize) -> Result<()> {
        Temporaries::free(self, slot)
    }

    fn finish(&mut self) -> Result<()> {
        self.wait_for_all()
    }
}
