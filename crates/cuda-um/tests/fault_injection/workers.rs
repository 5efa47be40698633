//! Many runs, on several threads, under a watch that ends the process when one hangs.

use crate::support::watchdog::watch_named;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Simulators at work at a time.
const WORKERS: usize = 4;
/// Longer than the slowest run takes on a busy machine.
const HANGS: Duration = Duration::from_secs(60);

/// Does `work` for every item; what it gives, in no order.
pub fn each<T: Display + Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(items.len()));
    std::thread::scope(|scope| {
        let workers = [(); WORKERS].map(|()| {
            scope.spawn(|| {
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

/// What a run found.
#[derive(Default)]
pub struct Report {
    /// How many failures struck.
    pub struck: usize,
    pub problems: Vec<String>,
}

/// What many runs found.
#[derive(Default)]
pub struct Summary {
    /// Runs in which 0, 1, … failures struck.
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
