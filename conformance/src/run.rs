//! Runs cases: one at a time, each under a watchdog, and nothing may stay behind.

use crate::call::fail;
use crate::{Case, Choice, Cuda, Failure, Machine, Outcome, Record, Run, Verdict, child};
use anyhow::Result;
use cuda_um_sim::Leak;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

pub use crate::case::LIMIT;

/// Runs the cases whose names hold `only`, in order; `seen` is told each record. A case that is `alone` runs in a process of
/// `program`, which is `um_conformance`.
///
/// A case that does not end within [`LIMIT`] ends this process, and is named on standard error.
///
/// # Errors
/// The machine does not tell its name, or `program` cannot be started.
pub fn run(
    machine: &Machine,
    choice: Choice,
    program: &Path,
    only: &str,
    mut seen: impl FnMut(&Case, &Record),
) -> Result<Run> {
    let mut run = Run {
        machine: machine.describe()?,
        records: Vec::new(),
    };
    let mut broken: Option<&str> = None;
    for case in crate::cases::all().filter(|case| case.name.contains(only)) {
        let record = match (case.unmet(&machine.facts), broken) {
            (Some(need), _) => Record::new(case.name, Outcome::Skipped(format!("needs {need}"))),
            (None, _) if case.alone => child::run(program, choice, case)?,
            (None, Some(by)) => Record::new(
                case.name,
                Outcome::Failed(format!("not run: {by} broke the context")),
            ),
            (None, None) => {
                let record = run_here(machine, case);
                if !works(machine) {
                    broken = Some(case.name);
                }
                record
            }
        };
        seen(case, &record);
        run.records.push(record);
    }
    Ok(run)
}

/// Runs one case in this process, whether it is `alone` or not.
pub fn run_here(machine: &Machine, case: &Case) -> Record {
    let _watchdog = Watchdog::start(case.name, LIMIT);
    let cuda = Cuda::new(machine);
    let misuse = machine.sim.as_ref().map_or(0, |sim| sim.misuse().len());
    let verdict = begin(&cuda)
        .and_then(|()| {
            if let Some(sim) = &machine.sim {
                sim.clear_trace();
            }
            catch_unwind(AssertUnwindSafe(|| (case.check)(&cuda)))
                .unwrap_or_else(|panic| fail(format!("panicked: {}", child::panic_text(&*panic))))
        })
        .and_then(|()| called(machine, &cuda, case))
        .and_then(|()| end(machine, &cuda, case, misuse));
    let outcome = match verdict {
        Ok(()) => Outcome::Passed,
        Err(Failure(text)) => Outcome::Failed(text),
    };
    Record {
        seen: cuda.into_seen(),
        ..Record::new(case.name, outcome)
    }
}

/// Every case begins on device 0, with no error behind it.
fn begin(cuda: &Cuda<'_>) -> Verdict {
    cuda.forget_error();
    cuda.ok("cudaSetDevice", cuda.set_device(0))
}

/// A case has called what it says it is about. The simulator keeps a log; a GPU's runtime does not.
fn called(machine: &Machine, cuda: &Cuda<'_>, case: &Case) -> Verdict {
    let Some(sim) = &machine.sim else {
        return Ok(());
    };
    let trace = sim.trace();
    // Older versions have the newer form under a name of its own.
    let plain = |name: &'static str| name.strip_suffix("_v2").unwrap_or(name);
    let called = |listed: &str| {
        cuda.has_asked(listed) || trace.iter().any(|call| plain(call.name) == listed)
    };
    let idle: Vec<_> = case.calls.iter().filter(|listed| !called(listed)).collect();
    match idle.is_empty() {
        true => Ok(()),
        false => fail(format!("it lists {idle:?}, and has not called it")),
    }
}

/// Nothing may stay behind, but in a context that the case was meant to break.
fn end(machine: &Machine, cuda: &Cuda<'_>, case: &Case, misuse_before: usize) -> Verdict {
    if case.alone && !works(machine) {
        return Ok(());
    }
    cuda.complaints()?;
    cuda.ok("the device afterwards", cuda.synchronize())?;
    let Some(sim) = &machine.sim else {
        return Ok(());
    };
    let (modules, others): (Vec<_>, Vec<_>) = sim
        .leaks()
        .into_iter()
        .partition(|leak| matches!(leak, Leak::Module));
    // The kernels of the cases stay loaded on every device.
    if modules.len() != machine.facts.devices || !others.is_empty() {
        return fail(format!(
            "left behind: {} modules, {others:?}",
            modules.len()
        ));
    }
    let misuse = &sim.misuse()[misuse_before..];
    match misuse.is_empty() != case.misuse {
        true => Ok(()),
        false if case.misuse => fail("the simulator has not noticed the misuse"),
        false => fail(format!("misuse: {misuse:?}")),
    }
}

fn works(machine: &Machine) -> bool {
    let cuda = Cuda::new(machine);
    cuda.synchronize() == crate::call::Code::SUCCESS
}

/// Ends the process if it is not dropped in time: a call that hangs inside CUDA cannot be ended otherwise.
struct Watchdog {
    done: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    fn start(case: &'static str, limit: Duration) -> Self {
        let (done, waits) = channel::<()>();
        let thread = std::thread::spawn(move || {
            if let Err(std::sync::mpsc::RecvTimeoutError::Timeout) = waits.recv_timeout(limit) {
                eprintln!("{case} has not ended after {limit:?}: the run ends here");
                // Not `exit`: what runs at exit may wait for the device.
                std::process::abort();
            }
        });
        Self {
            done: Some(done),
            thread: Some(thread),
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.done.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
