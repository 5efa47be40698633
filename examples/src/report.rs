//! The results and costs of a run: as a JSON object, and as text.

mod text;

use crate::args::BufferKind;
use crate::input::Inputs;
use crate::truth::recall_at;
use serde::Serialize;
use std::time::Duration;
use um_backend::sim::Sim;
use um_search::{SearchCounts, SearchPath};

/// The object that `--json` prints.
#[derive(Debug, Serialize)]
pub struct Report {
    /// `cuda` or `sim`.
    pub runtime: &'static str,
    /// The device's name.
    pub device: String,
    /// One for each buffer implementation.
    pub runs: Vec<Run>,
    /// The reason why migrations are not counted, if they are not.
    #[serde(skip)]
    pub uncounted: Option<String>,
}

/// The results of one buffer implementation.
#[derive(Debug, Serialize)]
pub struct Run {
    /// The implementation.
    pub buffer: BufferKind,
    /// Share of queries with the right target at the first place; `None` without truth.
    pub recall_at_1: Option<f64>,
    /// Share of queries with the right target among the first ten.
    pub recall_at_10: Option<f64>,
    /// Wall-clock time, in microseconds.
    pub phases_us: Phases,
    /// Times of the simulated machine by its cost model, in microseconds; only on the simulator.
    pub predicted_us: Option<PredictedPhases>,
    /// Migrated bytes of managed memory; `None` if they are not counted.
    pub migrated_bytes: BothWays,
    /// Page faults on managed memory; `None` if they are not counted.
    pub page_faults: Faults,
    /// Whether the buffers of vectors are the vectors themselves, or the reason for which they are copies.
    pub memory: String,
    /// Allocations of CUDA, and bytes that CUDA copied; only on the simulator.
    pub cuda: Option<CudaUse>,
    /// The search method.
    pub filter: Option<Filtering>,
    /// Advice and prefetches that did not apply, with reasons.
    pub notes: Vec<String>,
    /// The `k` best targets of every query, best first.
    pub top: Vec<Vec<Match>>,
    /// Like `top`, but long enough for recall@10.
    #[serde(skip)]
    pub found: Vec<Vec<Match>>,
}

/// The use of CUDA's allocator and copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct CudaUse {
    /// Calls that allocate.
    pub allocations: usize,
    /// Bytes that copies moved.
    pub copied_bytes: u64,
}

impl CudaUse {
    /// The use so far.
    pub fn of(sim: &Sim) -> Self {
        let calls = sim.trace();
        let allocates = |name: &str| name.starts_with("cudaMalloc") || name == "cudaHostAlloc";
        let counters = sim.counters();
        Self {
            allocations: calls.iter().filter(|call| allocates(call.name)).count(),
            copied_bytes: counters.copied_to_device
                + counters.copied_to_host
                + counters.copied_host_to_host
                + counters.copied_device_to_device,
        }
    }

    /// The use since then.
    pub fn since(self, before: Self) -> Self {
        Self {
            allocations: self.allocations - before.allocations,
            copied_bytes: self.copied_bytes - before.copied_bytes,
        }
    }
}

/// Wall-clock microseconds of each phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Phases {
    /// Reading and checking the files (once, for all runs).
    pub load: f64,
    /// Allocating, filling, advice, prefetch.
    pub place: f64,
    /// The kernel, until it is done.
    pub compute: f64,
    /// Copying the results to plain memory.
    pub to_vec: f64,
}

/// The phases that the simulator's clock covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct PredictedPhases {
    /// As [`Phases::place`].
    pub place: f64,
    /// As [`Phases::compute`].
    pub compute: f64,
    /// As [`Phases::to_vec`].
    pub to_vec: f64,
}

/// Bytes in each direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BothWays {
    /// From the host.
    pub to_device: Option<u64>,
    /// From the device.
    pub to_host: Option<u64>,
}

/// Faults by the side that accessed the page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Faults {
    /// The GPU.
    pub device: Option<u64>,
    /// The CPU.
    pub host: Option<u64>,
}

/// The search method, and the remaining work after its filter.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Filtering {
    /// `bf16`, `f16` or `int8`; `None`: all scores in single precision.
    pub format: Option<&'static str>,
    /// `sm_80` or `sm_90a`, with a filter.
    pub kernels: Option<&'static str>,
    /// The reason.
    pub reason: String,
    /// Targets that the filter kept, as an average over queries.
    pub candidates_per_query: f64,
    /// Targets that were then scored in single precision, as an average over queries.
    pub rescored_per_query: f64,
    /// Queries with too many candidates in 8 bits, which were filtered again in half precision.
    pub refiltered_queries: u64,
    /// Queries with too many candidates, which were searched without a filter.
    pub fallback_queries: u64,
}

impl Filtering {
    /// Combines the path of a launch with the counts.
    pub fn new(path: SearchPath, counts: SearchCounts, queries: usize) -> Self {
        let mean = |count: u64| (count as f64 / queries.max(1) as f64 * 10.0).round() / 10.0;
        Self {
            format: path.filter.map(|(_, format)| format.name()),
            kernels: path.filter.map(|(kernels, _)| kernels.name()),
            reason: path.reason,
            candidates_per_query: mean(counts.candidates),
            rescored_per_query: mean(counts.rescored),
            refiltered_queries: counts.refiltered_queries,
            fallback_queries: counts.fallback_queries,
        }
    }
}

/// A target and its cosine with the query.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Match {
    /// Row of the target, from 0.
    pub target: u32,
    /// Cosine similarity.
    pub cosine: f32,
}

impl Run {
    /// Summarizes `found`: recall if the truth is known, and the first `k`.
    pub fn new(buffer: BufferKind, inputs: &Inputs, found: Vec<Vec<Match>>) -> Self {
        let targets: Vec<Vec<u32>> = found
            .iter()
            .map(|row| row.iter().map(|hit| hit.target).collect())
            .collect();
        let recall = |k| {
            let truth = inputs.truth.as_deref()?;
            Some(recall_at(k, targets.iter().map(Vec::as_slice), truth))
        };
        Self {
            buffer,
            recall_at_1: recall(1),
            recall_at_10: recall(10),
            phases_us: Phases {
                load: microseconds(inputs.load),
                ..Phases::default()
            },
            predicted_us: None,
            migrated_bytes: BothWays::default(),
            page_faults: Faults::default(),
            memory: String::new(),
            cuda: None,
            filter: None,
            notes: Vec::new(),
            top: found
                .iter()
                .map(|row| row[..inputs.k.min(row.len())].to_vec())
                .collect(),
            found,
        }
    }
}

/// Microseconds, to a tenth.
pub fn microseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e7).round() / 10.0
}

/// Allowed difference between the cosines of two implementations.
pub const COSINE_BOUND: f32 = 1e-5;

/// The first place at which two runs differ by more than rounding: a cosine differs by more than [`COSINE_BOUND`], or the
/// targets differ although the cosines are not nearly equal.
pub fn disagreement(one: &Run, other: &Run) -> Option<String> {
    let differs = |row: &[Match], rank: usize, a: &Match, b: &Match| {
        let close_to_next = row
            .get(rank + 1)
            .is_some_and(|next| a.cosine - next.cosine <= COSINE_BOUND);
        let close_to_last = rank
            .checked_sub(1)
            .is_some_and(|last| row[last].cosine - a.cosine <= COSINE_BOUND);
        let last = rank + 1 == row.len();
        let tied = close_to_next || close_to_last || last;
        (a.cosine - b.cosine).abs() > COSINE_BOUND || (a.target != b.target && !tied)
    };
    for (query, (row, other_row)) in one.found.iter().zip(&other.found).enumerate() {
        for (rank, (a, b)) in row.iter().zip(other_row).enumerate() {
            if differs(row, rank, a, b) {
                return Some(format!(
                    "query {query}, rank {}: {} says target {} ({:.6}), {} says target {} ({:.6})",
                    rank + 1,
                    one.buffer.name(),
                    a.target,
                    a.cosine,
                    other.buffer.name(),
                    b.target,
                    b.cosine
                ));
            }
        }
    }
    None
}

impl Report {
    /// The first place at which two of the runs differ by more than rounding.
    pub fn disagreement(&self) -> Option<String> {
        let (first, rest) = self.runs.split_first()?;
        rest.iter().find_map(|other| disagreement(first, other))
    }
}
