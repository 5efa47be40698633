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
