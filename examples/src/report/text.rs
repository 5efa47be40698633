//! The report as text.

use super::{Filtering, PredictedPhases, Report, Run};
use crate::input::Inputs;
use crate::texts::printable;

/// Lines of text, without spaces at their ends.
#[derive(Default)]
struct Lines(String);

impl Lines {
    fn add(&mut self, line: &str) {
        self.0.push_str(line.trim_end());
        self.0.push('\n');
    }
}

impl Report {
    /// The table, the recall, and the matches of the first `show` queries.
    pub fn for_people(&self, inputs: &Inputs, show: usize) -> String {
        let mut lines = Lines::default();
        let matrix = &inputs.targets;
        lines.add(&format!(
            "{} queries in {} targets of {} × {}: the top {} by cosine",
            inputs.query_count,
            matrix.rows,
            matrix.columns,
            matrix.type_name(),
            inputs.k
        ));
        let note = if self.simulated() {
            "simulator of "
        } else {
            ""
        };
        lines.add(&format!("on {note}{}\n", self.device));
        self.recall_and_times(inputs, &mut lines);
        self.filters(&mut lines);
        self.traffic(&mut lines);
        self.remarks(&mut lines);
        if let Some(run) = self.runs.first() {
            matches(run, inputs, show, &mut lines);
        }
        lines.0
    }

    fn simulated(&self) -> bool {
        self.runtime == "sim"
    }

    /// Adds a line of the table with a cell for each run.
    fn row(&self, lines: &mut Lines, name: &str, cell: impl Fn(&Run) -> String) {
        let cells = self.runs.iter().map(|run| format!("{:>16}", cell(run)));
        lines.add(&format!("{name:<26}{}", cells.collect::<String>()));
    }

    fn recall_and_times(&self, inputs: &Inputs, lines: &mut Lines) {
        self.row(lines, "", |run| run.buffer.name().into());
        if inputs.truth.is_some() {
            let share =
                |share: Option<f64>| share.map_or_else(String::new, |one| format!("{one:.3}"));
            self.row(lines, "recall@1", |run| share(run.recall_at_1));
            self.row(lines, "recall@10", |run| share(run.recall_at_10));
        }
        self.row(lines, "load", |run| time(run.phases_us.load));
        self.row(lines, "place", |run| time(run.phases_us.place));
        self.row(lines, "compute", |run| time(run.phases_us.compute));
        self.row(lines, "read back", |run| time(run.phases_us.to_vec));
        if self.simulated() {
            type Pick = fn(&PredictedPhases) -> f64;
            let predicted: [(&str, Pick); 3] = [
                ("place, predicted", |phases| phases.place),
                ("compute, predicted", |phases| phases.compute),
                ("read back, predicted", |phases| phases.to_vec),
            ];
            for (name, pick) in predicted {
                self.row(lines, name, |run| {
                    let phases = run.predicted_us.as_ref();
                    phases.map_or_else(|| "-".into(), |phases| time(pick(phases)))
                });
            }
        }
    }

    fn filters(&self, lines: &mut Lines) {
        type Cell = fn(&Filtering) -> String;
        fn of(run: &Run) -> Option<&Filtering> {
            run.filter.as_ref().filter(|one| one.format.is_some())
        }
        if !self.runs.iter().any(|run| of(run).is_some()) {
            return;
        }
        let cells: [(&str, Cell); 4] = [
            ("filter", |filter| {
                let words = [filter.format, filter.kernels].map(Option::unwrap_or_default);
                words.join(" ")
            }),
            ("candidates a query", |filter| {
                format!("{:.1}", filter.candidates_per_query)
            }),
            ("of which scored exactly", |filter| {
                format!("{:.1}", filter.rescored_per_query)
            }),
            ("queries without a filter", |filter| {
                filter.fallback_queries.to_string()
            }),
        ];
        for (name, cell) in cells {
            self.row(lines, name, |run| of(run).map_or_else(|| "-".into(), cell));
        }
    }

    fn traffic(&self, lines: &mut Lines) {
        self.row(lines, "migrated to the device", |run| {
            bytes(run.migrated_bytes.to_device)
        });
        self.row(lines, "migrated to the host", |run| {
            bytes(run.migrated_bytes.to_host)
        });
        self.row(lines, "page faults, device", |run| {
            count(run.page_faults.device)
        });
        self.row(lines, "page faults, host", |run| {
            count(run.page_faults.host)
        });
    }

    /// The meaning of the times, notes, and if the runs agree.
    fn remarks(&self, lines: &mut Lines) {
        if self.simulated() {
            lines.add("\nTimes are wall-clock times of simulating; \"predicted\" is the cost model's time on the GPU.");
        }
        if let Some(why) = &self.uncounted {
            lines.add(&format!("\n? = not counted: {why}"));
        }
        for run in &self.runs {
            for note in &run.notes {
                lines.add(&format!("{}: {note}", run.buffer.name()));
            }
        }
        if let (Some(run), 2..) = (self.runs.first(), self.runs.len()) {
            lines.add(&match self.disagreement() {
                None => format!(
                    "All {} give the same top {}.",
                    self.runs.len(),
                    run.top.first().map_or(0, Vec::len)
                ),
                Some(place) => format!("They DISAGREE: {place}"),
            });
        }
    }
}

fn matches(run: &Run, inputs: &Inputs, show: usize, lines: &mut Lines) {
    let text = |texts: &Option<Vec<String>>, what: &str, row: usize| match texts {
        Some(texts) => printable(&texts[row], 100),
        None => format!("{what} {row}"),
    };
    for (query, row) in run.top.iter().enumerate().take(show) {
        lines.add(&format!(
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
            lines.add(&format!("  {mark} {:.4}  {target}", hit.cosine));
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
