//! Every CUDA call of every scenario fails once, in every way: a typed error, no leak, no abort, no hang, and the rest goes on.

mod check;
mod rules;
mod scenarios;
#[path = "../support/mod.rs"]
mod support;

use check::{Combination, KINDS, Kind, calls_of, run};
use rules::Rules;
use scenarios::SCENARIOS;
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Simulators at work at a time.
const WORKERS: usize = 4;
/// Of a call that is made often, the first so many times and the last one.
const FIRST: u64 = 5;
/// Longer than the slowest run takes on a busy machine.
const HANGS: Duration = Duration::from_secs(60);

/// Calls that only tell: their failure is nobody's.
fn is_inquiry(call: &str) -> bool {
    call.starts_with("cudaGetError") || call.contains("LastError") || call.contains("GetVersion")
}

/// A function that reports failures of work that went on: it may have done its own.
fn reports_late(call: &str) -> bool {
    [
        "cudaMemcpy",
        "cudaMemset",
        "cuMemset",
        "cuLaunchKernel",
        "cudaMemPrefetch",
        "cudaMemAdvise",
        "cudaEventRecord",
        "cudaEventSynchronize",
        "cudaStreamWaitEvent",
        "cudaStreamSynchronize",
        "cudaDeviceSynchronize",
    ]
    .iter()
    .any(|name| call.starts_with(name))
}

fn combinations() -> Vec<Combination> {
    let mut all = Vec::new();
    for scenario in SCENARIOS {
        for &machine in scenario.machines {
            for (call, count) in calls_of(scenario, machine) {
                if is_inquiry(call) {
                    continue;
                }
                let times = (1..=count).filter(|nth| *nth <= FIRST || *nth == count);
                for nth in times {
                    for kind in KINDS {
                        if kind != Kind::Late || reports_late(call) {
                            all.push(Combination {
                                scenario,
                                machine,
                                call,
                                nth,
                                kind,
                            });
                        }
                    }
                }
            }
        }
    }
    all
}

/// What each worker is at, and since when.
type At = [Mutex<Option<(String, Instant)>>; WORKERS];

/// Ends the process when a run hangs: there is no other way out of it.
fn watch(at: &At, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(200));
        for worker in at {
            let at = worker.lock().unwrap();
            if let Some((combination, since)) = &*at
                && since.elapsed() > HANGS
            {
                // Not captured: the process ends.
                let _ = writeln!(std::io::stderr(), "hangs: {combination}");
                std::process::abort();
            }
        }
    }
}

#[test]
fn every_call_fails_once_in_every_way() {
    let all = combinations();
    let (next, is_over, at) = (AtomicUsize::new(0), AtomicBool::new(false), At::default());
    let rules = Rules::default();
    let struck = AtomicUsize::new(0);
    let problems = Mutex::new(BTreeMap::<String, Vec<String>>::new());
    std::thread::scope(|scope| {
        scope.spawn(|| watch(&at, &is_over));
        let workers = at.each_ref().map(|at| {
            scope.spawn(|| {
                while let Some(combination) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    *at.lock().unwrap() = Some((combination.to_string(), Instant::now()));
                    let report = run(combination, &rules);
                    *at.lock().unwrap() = None;
                    struck.fetch_add(usize::from(report.struck), Ordering::Relaxed);
                    for problem in report.problems {
                        let mut problems = problems.lock().unwrap();
                        let seen = problems.entry(problem).or_default();
                        seen.push(combination.to_string());
                    }
                }
            })
        });
        for worker in workers {
            worker.join().expect("a worker ends");
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let struck = struck.into_inner();
    println!("{} combinations, {struck} failures struck", all.len());
    let problems = problems.into_inner().unwrap();
    for (problem, seen) in &problems {
        println!("{problem}: {} times", seen.len());
        for combination in seen.iter().take(6) {
            println!("    {combination}");
        }
    }
    assert!(
        problems.is_empty(),
        "{} problems, see above",
        problems.len()
    );
    let unused = rules.unused();
    assert!(unused.is_empty(), "no longer needed: {unused:#?}");
    assert!(struck >= 1000, "{struck} failures struck");
}
