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
            let waiting = launches.get_mut(&(run.name.clone(), run.device));
            let launch = waiting.and_then(|all| {
                let is_earlier = all.front().is_some_and(|launch| launch.start <= run.start);
                is_earlier.then(|| all.pop_front()).flatten()
            });
            run.operation = launch.map(|launch| launch.id);
            run
        })
        .collect();
    matched.sort_by_key(|run| run.start);
    matched
}

#[cfg(test)]
mod tests;
