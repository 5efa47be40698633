//! The results and costs of a run: as a JSON object, and as text.

use crate::args::BufferKind;
use crate::input::Inputs;
use crate::texts::printable;
use crate::truth::recall_at;
use serde::Serialize;
use std::time::Duration;
use um_kernels::{Path, SearchCounts};

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
    /// The search method of the device; `None` for the CPU.
    pub filter: Option<Filtering>,
    /// Advice and prefetches that did not apply, with reasons.
    pub notes: Vec<String>,
    /// The `k` best targets of every query, best first.
    pub top: Vec<Vec<Match>>,
    /// Like `top`, but long enough for recall@10.
    #[serde(skip)]
    pub found: Vec<Vec<Match>>,
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
    pub read_back: f64,
}

/// The phases that the simulator's clock covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct PredictedPhases {
    /// As [`Phases::place`].
    pub place: f64,
    /// As [`Phases::compute`].
    pub compute: f64,
    /// As [`Phases::read_back`].
    pub read_back: f64,
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

/// The search method of the device, and the remaining work after its filter.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Filtering {
    /// `bf16` or `f16`; `None`: all scores in single precision.
    pub format: Option<&'static str>,
    /// `sm_80` or `sm_90a`, with a filter.
    pub kernels: Option<&'static str>,
    /// The reason.
    pub reason: String,
    /// Targets that the filter kept, as an average over queries.
    pub candidates_per_query: f64,
    /// Targets that were then scored in single precision, as an average over queries.
    pub rescored_per_query: f64,
    /// Queries with too many candidates, which were searched without a filter.
    pub fallback_queries: u64,
}

impl Filtering {
    /// Combines the path of a launch with the counts.
    pub fn new(path: Path, counts: SearchCounts, queries: usize) -> Self {
        let mean = |count: u64| (count as f64 / queries.max(1) as f64 * 10.0).round() / 10.0;
        Self {
            format: path.filter.map(|(_, format)| format.name()),
            kernels: path.filter.map(|(kernels, _)| kernels.name()),
            reason: path.reason,
            candidates_per_query: mean(counts.candidates),
            rescored_per_query: mean(counts.rescored),
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

    /// The table, the recall, and the matches of the first `show` queries.
    pub fn for_people(&self, inputs: &Inputs, show: usize) -> String {
        let mut text = String::new();
        let mut line = |content: String| {
            text.push_str(content.trim_end());
            text.push('\n');
        };
        let matrix = &inputs.targets;
        line(format!(
            "{} queries in {} targets of {} × {}: the top {} by cosine",
            inputs.query_count,
            matrix.rows,
            matrix.columns,
            matrix.type_name(),
            inputs.k
        ));
        let simulated = self.runtime == "sim";
        let note = if simulated { "simulator of " } else { "" };
        line(format!("on {note}{}\n", self.device));

        let row = |name: &str, cell: &dyn Fn(&Run) -> String| {
            let cells: String = self
                .runs
                .iter()
                .map(|run| format!("{:>16}", cell(run)))
                .collect();
            format!("{name:<26}{cells}")
        };
        line(row("", &|run| run.buffer.name().into()));
        if inputs.truth.is_some() {
            line(row("recall@1", &|run| {
                run.recall_at_1
                    .map_or_else(String::new, |share| format!("{share:.3}"))
            }));
            line(row("recall@10", &|run| {
                run.recall_at_10
                    .map_or_else(String::new, |share| format!("{share:.3}"))
            }));
        }
        line(row("load", &|run| time(run.phases_us.load)));
        line(row("place", &|run| time(run.phases_us.place)));
        line(row("compute", &|run| time(run.phases_us.compute)));
        line(row("read back", &|run| time(run.phases_us.read_back)));
        if simulated {
            let predicted = |pick: fn(&PredictedPhases) -> f64| {
                move |run: &Run| {
                    run.predicted_us
                        .as_ref()
                        .map_or_else(|| "-".into(), |phases| time(pick(phases)))
                }
            };
            line(row("place, predicted", &predicted(|phases| phases.place)));
            line(row(
                "compute, predicted",
                &predicted(|phases| phases.compute),
            ));
            line(row(
                "read back, predicted",
                &predicted(|phases| phases.read_back),
            ));
        }
        let filtering = |cell: &dyn Fn(&Filtering) -> String| {
            let cells = self.runs.iter().map(|run| match &run.filter {
                Some(filter) if filter.format.is_some() => cell(filter),
                _ => "-".into(),
            });
            cells.map(|cell| format!("{cell:>16}")).collect::<String>()
        };
        let is_filtered = |run: &Run| run.filter.as_ref().is_some_and(|f| f.format.is_some());
        if self.runs.iter().any(is_filtered) {
            for (name, cells) in [
                (
                    "filter",
                    filtering(&|filter| {
                        let words = [filter.format, filter.kernels].map(Option::unwrap_or_default);
                        words.join(" ")
                    }),
                ),
                (
                    "candidates a query",
                    filtering(&|filter| format!("{:.1}", filter.candidates_per_query)),
                ),
                (
                    "of which scored exactly",
                    filtering(&|filter| format!("{:.1}", filter.rescored_per_query)),
                ),
                (
                    "queries without a filter",
                    filtering(&|filter| filter.fallback_queries.to_string()),
                ),
            ] {
                line(format!("{name:<26}{cells}"));
            }
        }
        line(row("migrated to the device", &|run| {
            bytes(run.migrated_bytes.to_device)
        }));
        line(row("migrated to the host", &|run| {
            bytes(run.migrated_bytes.to_host)
        }));
        line(row("page faults, device", &|run| {
            count(run.page_faults.device)
        }));
        line(row("page faults, host", &|run| count(run.page_faults.host)));
        if simulated {
            line("\nTimes are wall-clock times of simulating; \"predicted\" is the cost model's time on the GPU.".into());
        }
        if let Some(why) = &self.uncounted {
            line(format!("\n? = not counted: {why}"));
        }
        for run in &self.runs {
            run.notes
                .iter()
                .for_each(|note| line(format!("{}: {note}", run.buffer.name())));
        }
        if let (Some(run), 2..) = (self.runs.first(), self.runs.len()) {
            let agree = self.disagreement().map_or_else(
                || {
                    format!(
                        "All {} give the same top {}.",
                        self.runs.len(),
                        run.top.first().map_or(0, Vec::len)
                    )
                },
                |where_| format!("They DISAGREE: {where_}"),
            );
            line(agree);
        }
        self.runs
            .first()
            .into_iter()
            .for_each(|run| matches(run, inputs, show, &mut line));
        text
    }
}

fn matches(run: &Run, inputs: &Inputs, show: usize, line: &mut dyn FnMut(String)) {
    let text = |texts: &Option<Vec<String>>, what: &str, row: usize| match texts {
        Some(texts) => printable(&texts[row], 100),
        None => format!("{what} {row}"),
    };
    for (query, row) in run.top.iter().enumerate().take(show) {
        line(format!(
            "\n\"{}\"",
            text(&inputs.query_texts, "query", query)
        ));
        for hit in row.iter().take(3) {
            let right = inputs
                .truth
                .as_ref()
                .is_some_and(|truth| truth[query] == hit.target);
            let mark = if right { '*' } else { ' ' };
            let target = text(&inputs.target_texts, "target", hit.target as usize);
            line(format!("  {mark} {:.4}  {target}", hit.cosine));
        }
    }
}

fn time(us: f64) -> String {
    match us {
        us if us < 1e3 => format!("{us:.1} us"),
        us if us < 1e6 => format!("{:.2} ms", us / 1e3),
        us => format!("{:.2} s", us / 1e6),
    }
}

fn bytes(bytes: Option<u64>) -> String {
    match bytes {
        None => "?".into(),
        Some(bytes) if bytes < 1 << 20 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        Some(bytes) => format!("{:.2} MiB", bytes as f64 / f64::from(1 << 20)),
    }
}

fn count(count: Option<u64>) -> String {
    count.map_or_else(|| "?".into(), |count| count.to_string())
}
