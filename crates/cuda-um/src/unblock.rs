//! Runs waiting work on another thread, for futures on any executor.

use crate::error::Result;
use crate::fork::{self, Origin, PerProcess};
use crate::process_end::{self, Calls};
use crate::sync::{Condvar, Mutex, caught, global};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
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
/// Errors of `work`; CUDA's error for a call during the end of the process, if the process ends in the work;
/// [`Error::Forked`](crate::Error::Forked) in a child made by `fork` after the call, because the thread does not
/// exist there.
#[doc(hidden)]
pub async fn unblock<R: Send + 'static>(
    work: impl FnOnce() -> Result<R> + Send + 'static,
) -> Result<R> {
    let origin = Origin::here();
    let task = Arc::new(Mutex::new(Task {
        work: Some(work),
        result: None,
        waker: None,
    }));
    let shared = Arc::clone(&task);
    Pool::run(Box::new(move || {
        // While the process ends, the thread stops here: if the thread that runs the exit handlers polls the future, that one does the work.
        let _calls = Calls::of("a future");
        let Some(work) = shared.lock().work.take() else {
            return;
        };
        // A panic goes to the future.
        let result = catch_unwind(AssertUnwindSafe(work));
        let waker = {
            let mut task = shared.lock();
            task.result = Some(result);
            task.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }));
    poll_fn(move |context| {
        // Other threads than the one that runs the exit handlers stop here when the process ends.
        origin.check_fork("a future")?;
        fork::check("a future")?;
        // A waker is cloned and dropped without the lock.
        let waker = Contained::of(context);
        let mut held = task.lock();
        if let Some(result) = held.result.take() {
            drop(held);
            return Poll::Ready(result.unwrap_or_else(|panic| resume_unwind(panic)));
        }
        if process_end::is_ending() {
            // The threads of the pool have stopped, in the work or before it.
            let work = held.work.take();
            drop(held);
            return Poll::Ready(match work {
                Some(work) => work(),
                None => Err(process_end::error("a future")),
            });
        }
        let before = held.waker.replace(waker);
        drop(held);
        drop(before);
        Poll::Pending
    })
    .await
}

/// The work of a future, until a thread begins it; its result; and the waker of the future that waits for it.
struct Task<W, R> {
    work: Option<W>,
    result: Option<std::thread::Result<Result<R>>>,
    waker: Option<Contained>,
}

impl<W, R> Drop for Task<W, R> {
    /// The future is gone, and a payload of a panic is foreign code.
    fn drop(&mut self) {
        match self.result.take() {
            Some(Err(panic)) => std::mem::forget(panic),
            result => drop(caught(|| drop(result))),
        }
    }
}

/// A waker is foreign code: panics in its wake and its drop are caught. Not part of the public interface: `um-backend` uses it.
#[doc(hidden)]
#[derive(Debug)]
pub struct Contained(Option<Waker>);

impl Contained {
    /// The waker of a task. Its clone may panic.
    pub fn of(context: &Context<'_>) -> Self {
        Self(Some(context.waker().clone()))
    }

    /// The waker, until it is woken.
    pub fn waker(&self) -> Option<&Waker> {
        self.0.as_ref()
    }

    /// Wakes the task, without a lock.
    pub fn wake(mut self) {
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
    static POOL: PerProcess<Pool> = PerProcess::new(Pool::default);
}

impl Pool {
    /// Runs a job on a thread. The job does not panic.
    fn run(job: Job) {
        let pool = POOL.get();
        let mut state = pool.state.lock();
        state.jobs.push_back(job);
        if state.idle >= state.jobs.len() || state.threads >= THREADS {
            drop(state);
            pool.work_came.notify_one();
            return;
        }
        state.threads += 1;
        drop(state);
        let thread = std::thread::Builder::new().name("cuda-um-wait".to_owned());
        if thread.spawn(|| pool.work()).is_err() {
            let job = {
                let mut state = pool.state.lock();
                state.threads -= 1;
                state.jobs.pop_back()
            };
            if let Some(job) = job {
                job();
            }
        }
    }

    /// Runs jobs until none comes for a while.
    fn work(&self) {
        let mut state = self.state.lock();
        loop {
            while let Some(job) = state.jobs.pop_front() {
                drop(state);
                job();
                state = self.state.lock();
            }
            let since = Instant::now();
            state.idle += 1;
            self.work_came.wait_for(&mut state, IDLE);
            state.idle -= 1;
            if state.jobs.is_empty() && since.elapsed() >= IDLE {
                state.threads -= 1;
                return;
            }
        }
    }
}
