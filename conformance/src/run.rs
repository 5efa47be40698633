//! Runs cases one at a time, under a watchdog, and checks that nothing is left behind.

use crate::call::driver::images;
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

/// Runs the cases with `only` in their names, in order, and passes each record to `seen`. A case that is `alone` runs in a
/// separate process of `program`, which must be `um_conformance`.
///
/// If a case does not end within [`LIMIT`], this process ends, and the case is named on standard error.
///
/// # Errors
/// The machine does not return its name, or `program` cannot be started.
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

/// Runs one case in this process, also if it is `alone`.
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

/// Prepares a case: every case begins on device 0, without an old error.
fn begin(cuda: &Cuda<'_>) -> Verdict {
    cuda.forget_error();
    cuda.ok("cudaSetDevice", cuda.set_device(0))
}

/// Checks that a case has called all functions that it lists. The simulator keeps a log; a GPU's runtime does not.
fn called(machine: &Machine, cuda: &Cuda<'_>, case: &Case) -> Verdict {
    let Some(sim) = &machine.sim else {
        return Ok(());
    };
    let trace = sim.trace();
    // In older versions the newer form has another name.
    let plain = |name: &'static str| name.strip_suffix("_v2").unwrap_or(name);
    let called = |listed: &str| {
        cuda.has_asked(listed) || trace.iter().any(|call| plain(call.name) == listed)
    };
    let idle: Vec<_> = case.calls.iter().filter(|listed| !called(listed)).collect();
    match idle.is_empty() {
        true => Ok(()),
        false => fail(format!("it lists {idle:?}, but has not called it")),
    }
}

/// Checks that nothing is left behind, except in a context that the case breaks on purpose.
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
    let loaded = machine.facts.devices * images(&machine.table).count();
    if modules.len() != loaded || !others.is_empty() {
        return fail(format!(
            "left behind: {} modules, {others:?}",
            modules.len()
        ));
    }
    let misuse = &sim.misuse()[misuse_before..];
    match misuse.is_empty() != case.misuse {
        true => Ok(()),
        false if case.misuse => fail("the simulator has not reported the misuse"),
        false => fail(format!("misuse: {misuse:?}")),
    }
}

fn works(machine: &Machine) -> bool {
    let cuda = Cuda::new(machine);
    cuda.synchronize() == crate::call::Code::SUCCESS
}

/// Ends the process if it is not dropped in time, because nothing else can end a call that hangs inside CUDA.
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
                // Not `exit`: exit handlers may wait for the device.
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
