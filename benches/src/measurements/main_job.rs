//! The main job, in phases: new buffers with the vectors, the search, and the results on the host.

use super::measurement::Measurement;
use super::recall::{DIM, K, SINGLE, Task};
use crate::Bench;
use crate::data;
use crate::measure::{Case, Round};
use crate::report::CaseReport;
use anyhow::Result;
use cuda_um::{DeviceBuffer, UnifiedBuffer};
use std::cell::RefCell;
use std::time::Duration;
use um_search::{ExactTopK, Filter, Metric, SearchBuffers, TopKShape};

pub(super) const MEASUREMENT: Measurement = Measurement {
    name: "main_job",
    what: "Finds the 10 nearest of 1000 vectors for each of 1000 queries, as the example batch_recall does, in unified and in device \
           memory. Place: new buffers from the slices of vectors (2.9 MiB each), zeroed ones for the results, and the wait. \
           Compute: the search, and the wait. Read back: the results to slices. Sum: all three. Freeing is not timed. \
           The first queries are verified with the CPU reference. A quick run on the simulator has 100 of both.",
    run,
    notes,
};

const UNIFIED: &str = "cuda-um, unified buffers";
const DEVICE: &str = "cuda-um, device buffers";

/// The phases, by their places in the times of a job.
const PHASES: [(&str, std::ops::Range<usize>); 4] = [
    ("place", 0..1),
    ("compute", 1..2),
    ("read back", 2..3),
    ("sum", 0..3),
];

fn run(bench: &Bench, cases: &mut Vec<CaseReport>) -> Result<()> {
    // The simulator runs the CPU reference.
    let count = match bench.clock.is_simulated() && bench.settings.quick {
        true => 100,
        false => 1000,
    };
    let mut targets = vec![0.0; count * DIM];
    data::fill_unit_vectors(&mut targets, DIM, u64::MAX);
    let job = Job {
        bench,
        search: &ExactTopK::load(&bench.device)?,
        targets: &targets,
        shape: TopKShape {
            queries: count,
            targets: count,
            dim: DIM,
            k: K,
        },
    };
    let task = RefCell::new(Task::new(count, &targets, None));
    for (phase, part) in PHASES {
        let mut case = Case::new(phase, size_of_val(&*targets), 1);
        for (name, run) in [(UNIFIED, unified as Run), (DEVICE, device as Run)] {
            let (task, part) = (&task, part.clone());
            case.ours(name, move |round| {
                let times = sample(job, &mut task.borrow_mut(), round, run)?;
                Ok(times[part.clone()].iter().sum())
            });
        }
        cases.push(case.run(&bench.clock, &bench.settings));
    }
    Ok(())
}

#[derive(Clone, Copy)]
struct Job<'a> {
    bench: &'a Bench,
    search: &'a ExactTopK,
    targets: &'a [f32],
    shape: TopKShape,
}

/// Results on the host: cosines, and rows of targets.
type Results = (Vec<f32>, Vec<u32>);

/// Does the job for these queries; the times of the phases.
type Run = fn(Job<'_>, &[f32], &mut Results) -> Result<[Duration; 3]>;

fn sample(
    job: Job<'_>,
    task: &mut Task<'_>,
    round: &mut Round<'_>,
    run: Run,
) -> Result<[Duration; 3]> {
    task.at(round)?;
    let count = job.shape.queries * K;
    let mut results = (vec![f32::NAN; count], vec![u32::MAX; count]);
    let times = run(job, &task.queries, &mut results)?;
    task.verify(round, &results.0, &results.1, SINGLE)?;
    Ok(times)
}

/// The job with one type of buffer.
macro_rules! job {
    ($name:ident, $buffer:ident) => {
        fn $name(
            job: Job<'_>,
            queries: &[f32],
            (scores, indices): &mut Results,
        ) -> Result<[Duration; 3]> {
            let (bench, clock) = (job.bench, &job.bench.clock);
            let (device, stream) = (&bench.device, &bench.stream);
            let start = clock.now();
            let targets = $buffer::from_slice(device, job.targets)?;
            let queries = $buffer::from_slice(device, queries)?;
            let mut best_scores = $buffer::<f32>::zeroed(device, scores.len())?;
            let mut best = $buffer::<u32>::zeroed(device, indices.len())?;
            device.default_stream()?.synchronize()?;
            let placed = clock.now();
            let buffers = SearchBuffers {
                queries: queries.view(..)?,
                targets: targets.view(..)?,
                scores: best_scores.view_mut(..)?,
                indices: best.view_mut(..)?,
            };
            let (metric, filter) = (Metric::Cosine, Filter::Auto);
            job.search
                .launch(stream, job.shape, metric, filter, buffers)?;
            stream.synchronize()?;
            let computed = clock.now();
            best_scores.copy_to_host(scores)?;
            best.copy_to_host(indices)?;
            let read = clock.now();
            targets.close()?;
            queries.close()?;
            best_scores.close()?;
            best.close()?;
            Ok([placed - start, computed - placed, read - computed])
        }
    };
}
job!(unified, UnifiedBuffer);
job!(device, DeviceBuffer);

/// Unified against device memory.
fn notes(cases: &[CaseReport]) -> Vec<String> {
    let against = |case: &CaseReport| {
        let (unified, device) = (case.median(UNIFIED)?, case.median(DEVICE)?);
        let ratio = if device > 0.0 { unified / device } else { 1.0 };
        Some(format!(
            "{}: unified buffers take {ratio:.2} of the time of device buffers ({:+.0} us)",
            case.label,
            (unified - device) * 1e6
        ))
    };
    cases.iter().filter_map(against).collect()
}
