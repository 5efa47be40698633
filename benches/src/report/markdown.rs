//! The tables as Markdown.

use super::{CaseReport, Kind, MeasurementReport, Outcome, Report};
use std::collections::BTreeMap;
use std::fmt::Write;

impl Report {
    /// The tables as Markdown.
    pub fn markdown(&self) -> String {
        let mut text = String::new();
        let quick = if self.quick { ", quick run" } else { "" };
        line(&mut text, format_args!("# {}{quick}", self.gpu));
        line(
            &mut text,
            format_args!(
                "CUDA runtime {}, driver up to CUDA {}, {} cores.",
                self.cuda, self.driver, self.cores
            ),
        );
        if self.predicted {
            line(
                &mut text,
                format_args!(
                    "**Predictions of the simulator's cost model, not measurements.** It charges no time for the host's own work."
                ),
            );
        }
        line(
            &mut text,
            format_args!(
                "Time: median of the rounds ± half the distance of the quartiles. × : the first contender's median over this one's \
                 (below 1: ours is faster)."
            ),
        );
        for (peer, found) in &self.peers {
            let _ = writeln!(text, "- {peer}: {found}");
        }
        for measurement in &self.measurements {
            measurement.markdown(&mut text);
        }
        let failures = self.failures();
        if !failures.is_empty() {
            line(&mut text, format_args!("\n## Failed"));
            failures.iter().for_each(|failure| {
                let _ = writeln!(text, "- {failure}");
            });
        }
        text
    }
}

fn line(text: &mut String, words: std::fmt::Arguments<'_>) {
    let _ = writeln!(text, "{words}\n");
}

impl MeasurementReport {
    fn markdown(&self, text: &mut String) {
        line(text, format_args!("\n## {}", self.name));
        line(text, format_args!("{}", self.what));
        let names = self.names();
        let _ = writeln!(text, "| | rounds | {} |", names.join(" | "));
        let _ = writeln!(text, "|---|---|{}", "---|".repeat(names.len()));
        for case in &self.cases {
            let cells: Vec<String> = names.iter().map(|name| case.cell(name)).collect();
            let _ = writeln!(
                text,
                "| {} | {} | {} |",
                case.label,
                case.rounds,
                cells.join(" | ")
            );
        }
        let skipped = self.skipped();
        if !(self.notes.is_empty() && skipped.is_empty()) {
            text.push('\n');
        }
        for note in &self.notes {
            let _ = writeln!(text, "- {note}");
        }
        for (reason, names) in skipped {
            let _ = writeln!(text, "- skipped: {} ({reason})", names.join("; "));
        }
    }

    /// The skipped contenders, by reason.
    fn skipped(&self) -> BTreeMap<&str, Vec<&str>> {
        let mut skipped: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for contender in self.cases.iter().flat_map(|case| &case.contenders) {
            if let Outcome::Skipped { reason } = &contender.outcome {
                let names = skipped.entry(reason).or_default();
                if !names.contains(&contender.name.as_str()) {
                    names.push(&contender.name);
                }
            }
        }
        skipped
    }
}

impl CaseReport {
    fn cell(&self, name: &str) -> String {
        let Some(contender) = self.contenders.iter().find(|c| c.name == name) else {
            return String::new();
        };
        match &contender.outcome {
            Outcome::Skipped { .. } => "skipped".to_owned(),
            Outcome::Failed { .. } => "FAILED".to_owned(),
            Outcome::Measured { seconds, .. } => {
                let spread = seconds.spread() * 100.0;
                let mut cell = format!("{} ± {spread:.0} %", time_text(seconds.median));
                let first = self.contenders.iter().find(|c| c.kind == Kind::Ours);
                let ratio = self.ratios.iter().find(|ratio| {
                    ratio.other == name && first.is_some_and(|first| first.name == ratio.ours)
                });
                if let Some(ratio) = ratio {
                    let best = if ratio.best_raw { ", best raw" } else { "" };
                    let _ = write!(cell, " (× {:.2}{best})", ratio.ratio);
                }
                cell
            }
        }
    }
}

/// `12.3 us`
pub fn time_text(seconds: f64) -> String {
    match seconds {
        s if s < 1e-6 => format!("{:.0} ns", s * 1e9),
        s if s < 1e-3 => format!("{:.1} us", s * 1e6),
        s if s < 1.0 => format!("{:.2} ms", s * 1e3),
        s => format!("{s:.2} s"),
    }
}
