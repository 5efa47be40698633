//! Work for several devices at the same time.

use crate::context::capture;
use crate::context::exclusion::keeps_a_gate;
use crate::error::{Error, Result};
use std::panic::resume_unwind;
use std::thread::{Builder, scope};

/// Runs a job for each device, each on a thread of its own and the last on this one, and returns their results in order when all have
/// ended.
///
/// While this thread captures a graph, the jobs run one after the other here: work of other threads would not be recorded. So they do while a
/// host guard keeps the gate of devices without concurrent managed access, for which the jobs might wait.
///
/// # Errors
///
/// In the place of a job for which the system gives no thread.
///
/// # Panics
///
/// With the panic of a job, when all have ended.
pub fn together<J: Send, R: Send>(
    mut jobs: Vec<J>,
    run: impl Fn(J) -> Result<R> + Sync,
) -> Vec<Result<R>> {
    let Some(last) = jobs.pop() else {
        return Vec::new();
    };
    if capture::is_of_this_thread() || keeps_a_gate() {
        return jobs.into_iter().chain([last]).map(run).collect();
    }
    let run = &run;
    scope(|threads| {
        let begin = |job| Builder::new().spawn_scoped(threads, move || run(job));
        let begun: Vec<_> = jobs.into_iter().map(begin).collect();
        let last = run(last);
        let end = |thread: std::io::Result<std::thread::ScopedJoinHandle<'_, _>>| match thread {
            Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
            Err(error) => Err(Error::Other(Box::new(error))),
        };
        begun.into_iter().map(end).chain([last]).collect()
    })
}

#[cfg(all(test, not(cuda_um_loom)))]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn jobs_run_at_the_same_time_and_end_in_order() {
        let all = Barrier::new(3);
        let results = together(vec![3, 1, 2], |job| {
            all.wait();
            match job {
                1 => Err(Error::NoDevice { call: "test" }),
                _ => Ok(job),
            }
        });
        assert!(matches!(
            results[..],
            [Ok(3), Err(Error::NoDevice { .. }), Ok(2)]
        ));
        assert!(together(Vec::new(), |job: u8| Ok(job)).is_empty());
    }
}
