//! Matching of kernel runs to launches.

use cuda_um_trace::{KernelRun, Operation, OperationKind};
use std::collections::{HashMap, VecDeque};

/// Assigns a launch to each run. Both are in the order of their calls: runs by CUPTI's number of the call, launches by start time. The runs
/// and launches of one kernel on one device are paired in that order. A run that began before the next launch gets none: its launch was
/// earlier than the profile, or did not use the library.
pub(crate) fn match_launches(
    mut runs: Vec<(u32, KernelRun)>,
    operations: &[Operation],
) -> Vec<KernelRun> {
    let mut launches: HashMap<(String, u32), VecDeque<&Operation>> = HashMap::new();
    for operation in operations {
        if let OperationKind::Launch { kernel } = &operation.kind {
            launches
                .entry((kernel.clone(), operation.device))
                .or_default()
                .push_back(operation);
        }
    }
    runs.sort_by_key(|(number, _)| *number);
    let mut matched: Vec<KernelRun> = runs
        .into_iter()
        .map(|(_, mut run)| {
            if let Some(waiting) = launches.get_mut(&(run.name.clone(), run.device))
                && waiting
                    .front()
                    .is_some_and(|launch| launch.start <= run.start)
            {
                run.operation = waiting.pop_front().map(|launch| launch.id);
            }
            run
        })
        .collect();
    matched.sort_by_key(|run| run.start);
    matched
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(id: u64, kernel: &str, start: u64) -> Operation {
        Operation {
            id,
            kind: OperationKind::Launch {
                kernel: kernel.into(),
            },
            stream: Some(id),
            device: 0,
            start,
            end: start + 1,
            accesses: Vec::new(),
        }
    }

    fn run(number: u32, name: &str, start: u64) -> (u32, KernelRun) {
        let run = KernelRun {
            name: name.into(),
            device: 0,
            stream: 0,
            start,
            end: start + 5,
            operation: None,
        };
        (number, run)
    }

    #[test]
    fn runs_on_two_streams_may_begin_in_another_order_than_they_were_launched() {
        let operations = [launch(0, "a", 10), launch(1, "a", 20), launch(2, "b", 30)];
        let runs = vec![run(3, "b", 45), run(2, "a", 40), run(1, "a", 60)];
        let matched = match_launches(runs, &operations);
        let launches: Vec<_> = matched
            .iter()
            .map(|run| (run.start, run.operation))
            .collect();
        assert_eq!(launches, [(40, Some(1)), (45, Some(2)), (60, Some(0))]);
    }

    #[test]
    fn a_run_from_before_the_launch_is_not_its() {
        let operations = [launch(0, "a", 10)];
        let runs = vec![run(1, "a", 5), run(2, "a", 12), run(3, "a", 30)];
        let matched = match_launches(runs, &operations);
        let launches: Vec<_> = matched.iter().map(|run| run.operation).collect();
        assert_eq!(launches, [None, Some(0), None]);
    }
}
