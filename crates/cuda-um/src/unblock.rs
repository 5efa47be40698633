//! Runs waiting work on another thread, for futures on any executor.

use crate::error::Result;
use crate::fork::Origin;
use crate::process_end::{self, Calls};
use crate::sync::{Condvar, Mutex, caught, global};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

/// A thread without work ends after this time.
const IDLE: Duration = Duration::from_millis(500);
/// The largest number of threads. Work beyond it waits for a thread: it waits only for devices, never for other work here.
const THREADS: usize = 256;

/// Runs `work`, which may block, on a thread of a pool. Not part of the public interface: `um-backend` uses it. If the system gives no
/// thread, the work runs in this call.
///
/// # Errors
///
/// Errors of `work`; [`Error::Forked`](crate::Error::Forked) in a child made by `fork` after the call, because the thread does not
/// exist there.
#[doc(hidden)]
pub async fn unblock<R: Send + 'static>(
    work: impl FnOnce() -> Result<R> + Send + 'static,
) -> Result<R> {
    let origin = Origin::here();
    let outcome: Arc<Mutex<Outcome<R>>> = Arc::default();
    let shared = Arc::clone(&outcome);
    Pool::run(Box::new(move || {
        // A panic goes to the future.
        let result = catch_unwind(AssertUnwindSafe(work));
        let waker = {
            let mut outcome = shared.lock();
            outcome.result = Some(result);
            outcome.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }));
    poll_fn(move |context| {
        origin.check("a future")?;
        // A waker is cloned and dropped without the lock.
        let waker = Contained(Some(context.waker().clone()));
        let mut outcome = outcome.lock();
        if let Some(result) = outcome.result.take() {
            drop(outcome);
            return Poll::Ready(result.unwrap_or_else(|panic| resume_unwind(panic)));
        }
        let before = outcome.waker.replace(waker);
        drop(outcome);
        drop(before);
        Poll::Pending
    })
    .await
}

/// A waker is foreign code: panics in it are caught.
struct Contained(Option<Waker>);

impl Contained {
    fn wake(mut self) {
        let waker = self.0.take();
        caught(|| waker.map(Waker::wake));
    }
}

impl Drop for Contained {
    fn drop(&mut self) {
        let waker = self.0.take();
        caught(|| drop(waker));
    }
}

/// What the work returned, and the waker of the future that waits for it.
struct Outcome<R> {
    result: Option<std::thread::Result<Result<R>>>,
    waker: Option<Contained>,
}

impl<R> Default for Outcome<R> {
    fn default() -> Self {
        Self {
            result: None,
            waker: None,
        }
    }
}

type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Pool {
    state: Mutex<State>,
    work_came: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    threads: usize,
    /// Threads that wait for work.
    idle: usize,
}

global! {
    static POOL: Pool = Pool {
        state: Mutex::new(State {
            jobs: VecDeque::new(),
            threads: 0,
            idle: 0,
        }),
        work_came: Condvar::new(),
    };
}

impl Pool {
    /// Runs a job on a thread. The job does not panic.
    fn run(job: Job) {
        let mut state = POOL.state.lock();
        state.jobs.push_back(job);
        if state.idle >= state.jobs.len() || state.threads >= THREADS {
            drop(state);
            POOL.work_came.notify_one();
            return;
        }
        state.threads += 1;
        drop(state);
        let thread = std::thread::Builder::new().name("cuda-um-wait".to_owned());
        if thread.spawn(Self::work).is_err() {
            let job = {
                let mut state = POOL.state.lock();
                state.threads -= 1;
                state.jobs.pop_back()
            };
            if let Some(job) = job {
                job();
            }
        }
    }

    /// Runs jobs until none comes for a while.
    fn work() {
        let mut state = POOL.state.lock();
        loop {
            while let Some(job) = state.jobs.pop_front() {
                drop(state);
                let Some(calls) = Calls::begin() else {
                    process_end::stop()
                };
                job();
                drop(calls);
                state = POOL.state.lock();
            }
            let since = Instant::now();
            state.idle += 1;
            POOL.work_came.wait_for(&mut state, IDLE);
            state.idle -= 1;
            if state.jobs.is_empty() && since.elapsed() >= IDLE {
                state.threads -= 1;
                return;
            }
        }
    }
}
