//! Compares the runs of the same cases on two machines.

use crate::{Case, Outcome, Record, Run, cases};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The differences between two machines.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    /// Cases that differ.
    pub cases: usize,
    /// All differences, each with its case.
    pub faults: Vec<String>,
}

/// Compares two runs. A case that fails on both sides is also a difference.
pub fn compare(gpu: &Run, sim: &Run) -> Comparison {
    let mut comparison = Comparison::default();
    // Only the first record of a case counts.
    let mut cases: BTreeMap<&str, [Option<&Record>; 2]> = BTreeMap::new();
    for (side, run) in [gpu, sim].into_iter().enumerate() {
        for record in &run.records {
            cases.entry(&record.case).or_default()[side].get_or_insert(record);
        }
    }
    for (name, sides) in cases {
        let differs = match sides {
            [Some(gpu), Some(sim)] => differing(gpu, sim),
            [Some(_), None] => vec!["ran only on the GPU".to_owned()],
            _ => vec!["ran only on the simulator".to_owned()],
        };
        comparison.cases += usize::from(!differs.is_empty());
        let faults = differs.iter().map(|what| format!("{name}: {what}"));
        comparison.faults.extend(faults);
    }
    comparison
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
    if gpu.questions() != sim.questions() {
        return vec![format!(
            "observed {:?} on the GPU, {:?} on the simulator",
            gpu.questions(),
            sim.questions()
        )];
    }
    let pairs = gpu.seen.iter().zip(&sim.seen);
    pairs
        .filter(|((_, gpu), (_, sim))| !gpu.agrees(sim))
        .map(|((name, gpu), (_, sim))| format!("{name}: {gpu} on the GPU, {sim} on the simulator"))
        .collect()
}

/// The comparison as Markdown, with one row for each case.
pub fn table(gpu: &Run, sim: &Run, comparison: &Comparison) -> String {
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
        "- Cases that differ: {}; faults: {}.\n",
        comparison.cases,
        comparison.faults.len()
    );
    if !comparison.faults.is_empty() {
        text.push_str("## Faults\n\n");
        for fault in &comparison.faults {
            let _ = writeln!(text, "- {}", cell(fault));
        }
        text.push('\n');
    }
    text.push_str("## Cases\n\n| case | rule | GPU | simulator | seen |\n|---|---|---|---|---|\n");
    for case in cases::all() {
        let (on_gpu, on_sim) = (gpu.find(case.name), sim.find(case.name));
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
    // The table is three folders below the root.
    let link = match case.source.starts_with("https://") {
        true => case.source.to_owned(),
        false => format!("../../../{}", case.source),
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

/// Each observation once; both values if the two sides differ.
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

/// Escapes a text so that it stays in its table cell.
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

    fn faults(gpu: &Run, sim: &Run) -> Vec<String> {
        compare(gpu, sim).faults
    }

    #[test]
    fn what_is_seen_must_agree() {
        let (one, two) = (
            run_of("a.b", Outcome::Passed, 1),
            run_of("a.b", Outcome::Passed, 2),
        );
        assert!(faults(&one, &one).is_empty());
        assert_eq!(
            faults(&one, &two),
            ["a.b: bytes: 1 on the GPU, 2 on the simulator"]
        );
    }

    #[test]
    fn outcomes_must_agree_and_a_failure_on_both_is_a_fault() {
        let passed = run_of("a.b", Outcome::Passed, 1);
        let skipped = run_of("a.b", Outcome::Skipped("why".to_owned()), 1);
        let failed = run_of("a.b", Outcome::Failed("why".to_owned()), 1);
        assert_eq!(faults(&passed, &skipped).len(), 1);
        assert_eq!(faults(&failed, &failed).len(), 2);
    }

    #[test]
    fn the_lists_of_cases_must_agree() {
        let (one, none) = (run_of("a.b", Outcome::Passed, 1), Run::default());
        assert_eq!(faults(&one, &none), ["a.b: ran only on the GPU"]);
        assert_eq!(faults(&none, &one), ["a.b: ran only on the simulator"]);
    }
}
