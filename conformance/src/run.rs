//! Runs cases one at a time, under a watchdog, and checks that nothing is left behind.

use crate::call::{Calls, ok};
use crate::case::LIMIT;
use crate::{Case, Choice, Cuda, Machine, Outcome, Record, Run, cases, kernels};
use anyhow::{Result, ensure};
use cuda_um_sim::Leak;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};

/// Runs the cases with `only` in their names, in order, and passes each record to `seen`. A case that is `alone` runs in a
/// separate process of `program`, which must be `um_conformance`.
///
/// If a case does not end within 60 seconds, this process ends, and the case is named on standard error.
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
    for case in cases::all().filter(|case| case.name.contains(only)) {
        let without = |outcome| Record {
            case: case.name.to_owned(),
            outcome,
            seen: Vec::new(),
        };
        let record = match (case.unmet(&machine.facts), broken) {
            (Some(need), _) => without(Outcome::Skipped(format!("needs {need:?}"))),
            (None, _) if case.alone => apart(program, choice, case)
                .unwrap_or_else(|why| without(Outcome::Failed(format!("{why:#}")))),
            (None, Some(by)) => {
                without(Outcome::Failed(format!("not run: {by} broke the context")))
            }
            (None, None) => {
                let record = run_here(machine, case);
                broken = machine.table.synchronize().is_err().then_some(case.name);
                record
            }
        };
        seen(case, &record);
        run.records.push(record);
    }
    Ok(run)
}

/// Runs `program case NAME`, which prints the record as a line.
fn apart(program: &Path, choice: Choice, case: &Case) -> Result<Record> {
    let mut command = Command::new(program);
    command.arg("case").arg(case.name).args(choice.arguments());
    let output = command.stdin(Stdio::null()).output()?;
    let (status, said) = (output.status, String::from_utf8_lossy(&output.stderr));
    ensure!(status.success(), "its process ended with {status}: {said}");
    Record::from_line(&String::from_utf8_lossy(&output.stdout))
}

/// Runs one case in this process, also if it is `alone`.
pub fn run_here(machine: &Machine, case: &Case) -> Record {
    let _watched = watch(case.name);
    let cuda = Cuda::new(machine);
    let check = || {
        // Every case begins on device 0, without an old error.
        cuda.forget_error();
        ok(cuda.set_device(0));
        let misuse = machine.sim.as_ref().map_or(0, |sim| sim.misuse().len());
        machine.sim.iter().for_each(|sim| sim.clear_trace());
        (case.check)(&cuda);
        called(machine, &cuda, case);
        end(machine, &cuda, case, misuse);
    };
    let outcome = match catch_unwind(AssertUnwindSafe(check)) {
        Ok(()) => Outcome::Passed,
        Err(panic) => Outcome::Failed(cuda_um_testkit::message(&*panic).to_owned()),
    };
    Record {
        case: case.name.to_owned(),
        outcome,
        seen: cuda.seen.into_inner(),
    }
}

/// Checks that a case has called all functions that it lists. The simulator keeps a log; a GPU's runtime does not.
fn called(machine: &Machine, cuda: &Cuda<'_>, case: &Case) {
    let Some(sim) = &machine.sim else { return };
    let trace = sim.trace();
    // In older versions the newer form has another name.
    let plain = |name: &'static str| name.strip_suffix("_v2").unwrap_or(name);
    let asked = cuda.asked.borrow();
    for listed in case.calls {
        let logged = trace.iter().any(|call| plain(call.name) == *listed);
        assert!(
            logged || asked.contains(listed),
            "it lists {listed}, but has not called it"
        );
    }
}

/// Checks that nothing is left behind, except in a context that the case breaks on purpose.
fn end(machine: &Machine, cuda: &Cuda<'_>, case: &Case, misuse_before: usize) {
    if case.alone && cuda.synchronize().is_err() {
        return;
    }
    let late = cuda.late.borrow();
    assert!(late.is_empty(), "not released: {}", late.join("; "));
    ok(cuda.synchronize());
    let Some(sim) = &machine.sim else { return };
    let (modules, others): (Vec<_>, Vec<_>) = sim
        .leaks()
        .into_iter()
        .partition(|leak| matches!(leak, Leak::Module));
    // The kernels of the cases stay loaded on every device.
    let loaded = machine.facts.devices * kernels::images(&machine.table).len();
    let modules = modules.len();
    assert!(
        modules == loaded && others.is_empty(),
        "left behind: {modules} modules, {others:?}"
    );
    let misuse = &sim.misuse()[misuse_before..];
    assert!(
        misuse.is_empty() != case.misuse,
        "misuse, as the simulator reports it: {misuse:?}"
    );
}

/// Ends the process if the sender is not dropped in time, because nothing else can end a call that hangs inside CUDA.
fn watch(case: &'static str) -> Sender<()> {
    let (alive, ended) = channel();
    std::thread::spawn(move || {
        if ended.recv_timeout(LIMIT) == Err(RecvTimeoutError::Timeout) {
            eprintln!("{case} has not ended after {LIMIT:?}: the run ends here");
            // Not `exit`: exit handlers may wait for the device.
            std::process::abort();
        }
    });
    alive
}
