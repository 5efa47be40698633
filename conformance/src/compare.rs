//! Compares the runs of the same cases on two machines.

use crate::declared::Declared;
use crate::{Case, Outcome, Record, Run, cases};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

/// The differences between two machines.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    /// Cases that differ, each with its differences.
    pub differences: Vec<(String, Vec<Differs>)>,
    /// Faults: differences that are not declared, and declared differences that do not occur.
    pub faults: Vec<String>,
}

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Differs {
    /// The observation, if both sides passed and the values differ: this can be declared. Other differences cannot be declared:
    /// a rule must not fail on one side, and the observations after a failure are missing.
    pub observation: Option<String>,
    /// A description.
    pub text: String,
}

/// Compares two runs. A case that fails on both sides is also a difference.
pub fn compare(gpu: &Run, sim: &Run, declared: &Declared) -> Comparison {
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
            [Some(_), None] => vec![whole("ran only on the GPU".to_owned())],
            _ => vec![whole("ran only on the simulator".to_owned())],
        };
        for what in &differs {
            if !declared.covers(name, what.observation.as_deref()) {
                comparison.faults.push(format!("{name}: {}", what.text));
            }
        }
        if !differs.is_empty() {
            comparison.differences.push((name.to_owned(), differs));
        }
    }
    for known in &declared.difference {
        let occurs = comparison.differences.iter().any(|(name, differs)| {
            *name == known.case
                && differs
                    .iter()
                    .any(|what| known.covers(what.observation.as_deref()))
        });
        if !occurs && !skipped(gpu, sim, &known.case) {
            comparison.faults.push(format!(
                "{}: a difference is declared for \"{}\", but there is none",
                known.case, known.observation
            ));
        }
    }
    comparison
}

fn find<'r>(run: &'r Run, case: &str) -> Option<&'r Record> {
    run.records.iter().find(|record| record.case == case)
}

/// True if the case was skipped on both sides.
fn skipped(gpu: &Run, sim: &Run, case: &str) -> bool {
    [gpu, sim].iter().all(|run| {
        find(run, case).is_some_and(|record| matches!(record.outcome, Outcome::Skipped(_)))
    })
}

/// A difference that cannot be declared.
fn whole(text: String) -> Differs {
    Differs {
        observation: None,
        text,
    }
}

fn differing(gpu: &Record, sim: &Record) -> Vec<Differs> {
    let mut differs = Vec::new();
    for (machine, record) in [("GPU", gpu), ("simulator", sim)] {
        if let Outcome::Failed(why) = &record.outcome {
            differs.push(whole(format!("fails on the {machine}: {why}")));
        }
    }
    if !differs.is_empty() {
        return differs;
    }
    if gpu.outcome.word() != sim.outcome.word() {
        let (gpu, sim) = (gpu.outcome.word(), sim.outcome.word());
        return vec![whole(format!("{gpu} on the GPU, {sim} on the simulator"))];
    }
    if !gpu.asks_the_same(sim) {
        return vec![whole(format!(
            "observed {:?} on the GPU, {:?} on the simulator",
            gpu.questions(),
            sim.questions()
        ))];
    }
    let mut times: HashMap<&str, usize> = HashMap::new();
    for name in gpu.questions() {
        *times.entry(name).or_default() += 1;
    }
    let once = |name: &str| times.get(name) == Some(&1);
    let pairs = gpu.seen.iter().zip(&sim.seen);
    pairs
        .filter(|((_, gpu), (_, sim))| !gpu.agrees(sim))
        .map(|((name, gpu), (_, sim))| Differs {
            // A name that the case uses twice is ambiguous.
            observation: once(name).then(|| name.clone()),
            text: format!("{name}: {gpu} on the GPU, {sim} on the simulator"),
        })
        .collect()
}

/// The comparison as Markdown, with one row for each case.
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
        for known in &declared.difference {
            let _ = writeln!(
                text,
                "- `{}`: {} ([why]({}))",
                known.case, known.reason, known.link
            );
            let of_case = comparison
                .differences
                .iter()
                .filter(|(name, _)| *name == known.case);
            for what in of_case.flat_map(|(_, differs)| differs) {
                if known.covers(what.observation.as_deref()) {
                    let _ = writeln!(text, "  - {}", cell(&what.text));
                }
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
    // The table is two folders below `docs/`.
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

    fn faults(gpu: &Run, sim: &Run, declared: &str) -> Vec<String> {
        compare(gpu, sim, &Declared::parse(declared).unwrap()).faults
    }

    const DECLARED: &str = "[[difference]]\ncase = \"a.b\"\nobservation = \"bytes\"\nreason = \"r\"\nlink = \"https://l.m\"";

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
        assert_eq!(faults(&one, &none, ""), ["a.b: ran only on the GPU"]);
        assert_eq!(faults(&none, &one, ""), ["a.b: ran only on the simulator"]);
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
            ["a.b: a difference is declared for \"bytes\", but there is none"]
        );
        assert_eq!(faults(&Run::default(), &Run::default(), DECLARED).len(), 1);
        let skipped = run_of("a.b", Outcome::Skipped("why".to_owned()), 1);
        assert!(faults(&skipped, &skipped, DECLARED).is_empty());
    }

    #[test]
    fn a_declared_difference_covers_neither_failures_nor_other_observations() {
        let passed = run_of("a.b", Outcome::Passed, 1);
        let failed = run_of("a.b", Outcome::Failed("why".to_owned()), 2);
        // The failure, and the declared difference that was not found.
        assert_eq!(faults(&passed, &failed, DECLARED).len(), 2);
        let with = |other: u64, bytes: u64| {
            let mut run = run_of("a.b", Outcome::Passed, bytes);
            run.records[0]
                .seen
                .push(("other".to_owned(), Value::Number(other)));
            run
        };
        assert!(faults(&with(1, 1), &with(1, 2), DECLARED).is_empty());
        assert_eq!(
            faults(&with(1, 1), &with(2, 2), DECLARED),
            ["a.b: other: 1 on the GPU, 2 on the simulator"]
        );
    }

    #[test]
    fn an_observation_that_occurs_twice_cannot_be_declared() {
        let twice = |second: u64| {
            let mut run = run_of("a.b", Outcome::Passed, 1);
            run.records[0]
                .seen
                .push(("bytes".to_owned(), Value::Number(second)));
            run
        };
        assert_eq!(faults(&twice(1), &twice(2), DECLARED).len(), 2);
    }
}
