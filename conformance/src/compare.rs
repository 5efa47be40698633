//! Compares the runs of the same cases on two machines.

use crate::{Outcome, Record, Run};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The differences between two machines.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    pub cases: usize,
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

/// The comparison as Markdown.
pub fn report(gpu: &Run, sim: &Run, comparison: &Comparison) -> String {
    let mut text = String::from("# Conformance: the same cases on a GPU and on the simulator\n\n");
    for (name, run) in [("GPU", gpu), ("Simulator", sim)] {
        let counts =
            ["passed", "failed", "skipped"].map(|word| format!("{} {word}", run.count(word)));
        let (machine, cases, counts) = (&run.machine, run.records.len(), counts.join(", "));
        let _ = writeln!(text, "- {name}: {machine}. {cases} cases: {counts}.");
    }
    let (cases, faults) = (comparison.cases, &comparison.faults);
    let _ = writeln!(
        text,
        "- Cases that differ: {cases}; faults: {}.\n",
        faults.len()
    );
    for fault in faults {
        let _ = writeln!(text, "- {}", fault.replace('\n', " "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Value;

    fn run_of(outcome: Outcome, bytes: u64) -> Run {
        let seen = vec![("bytes".to_owned(), Value::Number(bytes))];
        let case = "a.b".to_owned();
        let records = vec![Record {
            case,
            outcome,
            seen,
        }];
        Run {
            machine: "one".to_owned(),
            records,
        }
    }

    #[test]
    fn what_is_seen_the_outcomes_and_the_lists_of_cases_must_agree_and_a_failure_on_both_is_a_fault()
     {
        let (one, two) = (run_of(Outcome::Passed, 1), run_of(Outcome::Passed, 2));
        let failed = run_of(Outcome::Failed("why".to_owned()), 1);
        let skipped = run_of(Outcome::Skipped("why".to_owned()), 1);
        let faults = |gpu: &Run, sim: &Run| compare(gpu, sim).faults;
        assert!(faults(&one, &one).is_empty());
        assert_eq!(
            faults(&one, &two),
            ["a.b: bytes: 1 on the GPU, 2 on the simulator"]
        );
        assert_eq!(faults(&one, &skipped).len(), 1);
        assert_eq!(faults(&failed, &failed).len(), 2);
        assert_eq!(faults(&one, &Run::default()), ["a.b: ran only on the GPU"]);
        assert_eq!(
            faults(&Run::default(), &one),
            ["a.b: ran only on the simulator"]
        );
    }

    #[test]
    fn counts_may_differ_by_their_factor_and_bytes_not_at_all() {
        let about = |about| Value::About { about, factor: 4 };
        assert!(about(10).agrees(&about(40)) && about(40).agrees(&about(10)));
        assert!(!about(10).agrees(&about(41)) && !about(0).agrees(&about(1)));
        assert!(!Value::Number(4096).agrees(&Value::Number(4097)));
    }
}
