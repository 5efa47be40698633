//! Many runs on several threads, under a watchdog that ends the process if a run hangs.

use crate::watchdog::watch_named;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Number of simulators at the same time.
const WORKERS: usize = 4;
/// Longer than the slowest run on a busy machine.
const HANGS: Duration = Duration::from_secs(60);

/// Calls `work` for every item and returns the results, in any order.
pub fn each<T: Display + Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(items.len()));
    std::thread::scope(|scope| {
        let workers = [(); WORKERS].map(|()| {
            scope.spawn(|| {
                // Relaxed: the numbers need only differ; a lock publishes the results.
                while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let _watchdog = watch_named(item.to_string(), HANGS, String::new);
                    let result = work(item);
                    done.lock().unwrap().push(result);
                }
            })
        });
        for worker in workers {
            worker.join().expect("a worker ends");
        }
    });
    done.into_inner().unwrap()
}

/// The result of a run.
#[derive(Default)]
pub struct Report {
    /// Number of failures that occurred.
    pub struck: usize,
    pub problems: Vec<String>,
}

/// The results of many runs.
#[derive(Default)]
pub struct Summary {
    /// Number of runs in which 0, 1, … failures occurred.
    pub by_struck: BTreeMap<usize, usize>,
    problems: BTreeMap<String, Vec<String>>,
}

impl Summary {
    pub fn of(reports: impl IntoIterator<Item = (String, Report)>) -> Self {
        let mut summary = Self::default();
        for (run, report) in reports {
            *summary.by_struck.entry(report.struck).or_default() += 1;
            for problem in report.problems {
                let seen = summary.problems.entry(problem).or_default();
                seen.push(run.clone());
            }
        }
        summary
    }

    pub fn struck(&self, failures: usize) -> usize {
        self.by_struck.get(&failures).copied().unwrap_or(0)
    }

    pub fn assert_no_problems(&self) {
        for (problem, seen) in &self.problems {
            println!("{problem}: {} times", seen.len());
            for run in seen.iter().take(6) {
                println!("    {run}");
            }
        }
        let count = self.problems.len();
        assert!(count == 0, "{count} problems, see above");
    }
}
