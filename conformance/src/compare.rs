//! The same cases on two machines, and what differs.

use crate::{Case, Outcome, Record, Run, cases};
use anyhow::{Context, Result};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

/// `declared.toml`: differences that are known, each with its reason.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Declared {
    /// The differences.
    #[serde(default)]
    pub difference: Vec<Difference>,
}

/// One known difference.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Difference {
    /// The case.
    pub case: String,
    /// Why it differs.
    pub reason: String,
    /// Where that is written.
    pub link: String,
}

impl Declared {
    /// Reads the file.
    ///
    /// # Errors
    /// There is none, or it holds something else.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        toml::from_str(&text).with_context(|| format!("{} is not as expected", path.display()))
    }
}

/// What differs between two machines.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    /// Cases that differ, each with what differs.
    pub differences: Vec<(String, Vec<String>)>,
    /// What must not be: differences that are not declared, and declared ones that do not occur.
    pub faults: Vec<String>,
}

/// Compares. A case that fails on both is a difference too: from the rule.
pub fn compare(gpu: &Run, sim: &Run, declared: &Declared) -> Comparison {
    let mut comparison = Comparison::default();
    let names: BTreeSet<&str> = [gpu, sim]
        .into_iter()
        .flat_map(|run| run.records.iter().map(|record| record.case.as_str()))
        .collect();
    for name in names {
        let differs = match (find(gpu, name), find(sim, name)) {
            (Some(gpu), Some(sim)) => differing(gpu, sim),
            (Some(_), None) => vec!["ran on the GPU alone".to_owned()],
            _ => vec!["ran on the simulator alone".to_owned()],
        };
        let is_declared = declared
            .difference
            .iter()
            .any(|difference| difference.case == name);
        match (differs.is_empty(), is_declared) {
            (true, true) => comparison.faults.push(format!(
                "{name}: a difference is declared, and there is none"
            )),
            (false, false) => comparison
                .faults
                .extend(differs.iter().map(|what| format!("{name}: {what}"))),
            _ => {}
        }
        if !differs.is_empty() {
            comparison.differences.push((name.to_owned(), differs));
        }
    }
    for difference in &declared.difference {
        if find(gpu, &difference.case).is_none() && find(sim, &difference.case).is_none() {
            let fault = format!(
                "{}: a difference is declared, and there is no such case",
                difference.case
            );
            comparison.faults.push(fault);
        }
    }
    comparison
}

fn find<'r>(run: &'r Run, case: &str) -> Option<&'r Record> {
    run.records.iter().find(|record| record.case == case)
}

fn differing(gpu: &Record, sim: &Record) -> Vec<String> {
    let mut differs = Vec::new();
    for (machine, record) in [("GPU", gpu), ("simulator", sim)] {
        if let Outcome::Failed(why) = &record.outcome {
            differs.push(format!("fails on the {machine}: {why}"));
        }
    }
    if !differs.is_empty() {
        return differs;
    }
    if gpu.outcome.word() != sim.outcome.word() {
        let (gpu, sim) = (gpu.outcome.word(), sim.outcome.word());
        return vec![format!("{gpu} on the GPU, {sim} on the simulator")];
    }
    let names = |record: &Record| -> Vec<String> {
        record.seen.iter().map(|(name, _)| name.clone()).collect()
    };
    if names(gpu) != names(sim) {
        return vec![format!(
            "observed {:?} on the GPU, {:?} on the simulator",
            names(gpu),
            names(sim)
        )];
    }
    let pairs = gpu.seen.iter().zip(&sim.seen);
    pairs
        .filter(|((_, gpu), (_, sim))| !gpu.agrees(sim))
        .map(|((name, gpu), (_, sim))| format!("{name}: {gpu} on the GPU, {sim} on the simulator"))
        .collect()
}

/// The comparison as Markdown: a row a case.
pub fn table(gpu: &Run, sim: &Run, declared: &Declared, comparison: &Comparison) -> String {
    let mut text = String::from("# Conformance: the same cases on a GPU and on the simulator\n\n");
    for (name, run) in [("GPU", gpu), ("Simulator", sim)] {
        let _ = writeln!(
            text,
            "- {name}: {}. {} cases: {} passed, {} failed, {} skipped.",
            run.machine,
            run.records.len(),
            run.count("passed"),
            run.count("failed"),
            run.count("skipped")
        );
    }
    let _ = writeln!(
        text,
        "- Cases that differ: {}; declared: {}; faults: {}.\n",
        comparison.differences.len(),
        declared.difference.len(),
        comparison.faults.len()
    );
    if !comparison.faults.is_empty() {
        text.push_str("## Faults\n\n");
        for fault in &comparison.faults {
            let _ = writeln!(text, "- {}", cell(fault));
        }
        text.push('\n');
    }
    if !declared.difference.is_empty() {
        text.push_str("## Declared differences\n\n");
        for Difference { case, reason, link } in &declared.difference {
            let _ = writeln!(text, "- `{case}`: {reason} ([why]({link}))");
            for (_, what) in comparison
                .differences
                .iter()
                .filter(|(name, _)| name == case)
            {
                let _ = writeln!(text, "  - {}", cell(&what.join("; ")));
            }
        }
        text.push('\n');
    }
    text.push_str("## Cases\n\n| case | rule | GPU | simulator | seen |\n|---|---|---|---|---|\n");
    for case in cases::all() {
        let (on_gpu, on_sim) = (find(gpu, case.name), find(sim, case.name));
        if on_gpu.is_some() || on_sim.is_some() {
            row(&mut text, case, on_gpu, on_sim);
        }
    }
    text
}

fn row(text: &mut String, case: &Case, gpu: Option<&Record>, sim: Option<&Record>) {
    let outcome = |record: Option<&Record>| match record.map(|record| &record.outcome) {
        None => "not run".to_owned(),
        Some(Outcome::Skipped(why)) => format!("skipped: {why}"),
        Some(outcome) => outcome.word().to_owned(),
    };
    // The table lies two folders below `docs/`.
    let link = match case.source.strip_prefix("docs/") {
        Some(page) => format!("../../{page}"),
        None => case.source.to_owned(),
    };
    let _ = writeln!(
        text,
        "| `{}` | {} ([source]({link})) | {} | {} | {} |",
        case.name,
        cell(case.rule),
        outcome(gpu),
        outcome(sim),
        cell(&observations(gpu, sim)),
    );
}

/// Each observation once, or both sides of it where they are not written alike.
fn observations(gpu: Option<&Record>, sim: Option<&Record>) -> String {
    let (Some(gpu), Some(sim)) = (gpu, sim) else {
        return String::new();
    };
    let mut seen = Vec::new();
    for (index, (name, on_gpu)) in gpu.seen.iter().enumerate() {
        let on_sim = sim.seen.get(index).map(|(_, value)| value.to_string());
        let on_gpu = on_gpu.to_string();
        seen.push(match on_sim {
            Some(on_sim) if on_sim != on_gpu => format!("{name}: {on_gpu} / {on_sim}"),
            _ => format!("{name}: {on_gpu}"),
        });
    }
    seen.join("; ")
}

/// Text that stays in its cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Value;

    fn run_of(case: &str, outcome: Outcome, bytes: u64) -> Run {
        Run {
            machine: "one".to_owned(),
            records: vec![Record {
                case: case.to_owned(),
                outcome,
                seen: vec![("bytes".to_owned(), Value::Number(bytes))],
            }],
        }
    }

    fn faults(gpu: &Run, sim: &Run, declared: &str) -> Vec<String> {
        compare(gpu, sim, &toml::from_str(declared).unwrap()).faults
    }

    const DECLARED: &str = "[[difference]]\ncase = \"a.b\"\nreason = \"r\"\nlink = \"l\"";

    #[test]
    fn what_is_seen_must_agree() {
        let (one, two) = (
            run_of("a.b", Outcome::Passed, 1),
            run_of("a.b", Outcome::Passed, 2),
        );
        assert!(faults(&one, &one, "").is_empty());
        assert_eq!(
            faults(&one, &two, ""),
            ["a.b: bytes: 1 on the GPU, 2 on the simulator"]
        );
    }

    #[test]
    fn outcomes_must_agree_and_a_failure_on_both_is_a_fault() {
        let passed = run_of("a.b", Outcome::Passed, 1);
        let skipped = run_of("a.b", Outcome::Skipped("why".to_owned()), 1);
        let failed = run_of("a.b", Outcome::Failed("why".to_owned()), 1);
        assert_eq!(faults(&passed, &skipped, "").len(), 1);
        assert_eq!(faults(&failed, &failed, "").len(), 2);
    }

    #[test]
    fn the_lists_of_cases_must_agree() {
        let (one, none) = (run_of("a.b", Outcome::Passed, 1), Run::default());
        assert_eq!(faults(&one, &none, ""), ["a.b: ran on the GPU alone"]);
        assert_eq!(faults(&none, &one, ""), ["a.b: ran on the simulator alone"]);
    }

    #[test]
    fn a_declared_difference_is_no_fault_and_one_that_does_not_occur_is() {
        let (one, two) = (
            run_of("a.b", Outcome::Passed, 1),
            run_of("a.b", Outcome::Passed, 2),
        );
        assert!(faults(&one, &two, DECLARED).is_empty());
        assert_eq!(
            faults(&one, &one, DECLARED),
            ["a.b: a difference is declared, and there is none"]
        );
        assert_eq!(faults(&Run::default(), &Run::default(), DECLARED).len(), 1);
    }

    #[test]
    fn the_declared_file_of_the_repository_is_read() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("declared.toml");
        let declared = Declared::read(&path).unwrap();
        assert!(
            declared
                .difference
                .iter()
                .all(|known| cases::all().any(|case| case.name == known.case))
        );
    }
}
