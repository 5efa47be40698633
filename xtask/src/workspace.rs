//! The paths of the workspace and its target folder, and running commands in it.

use anyhow::{Context, Result, bail};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, ScopedJoinHandle};

/// The root of the workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask/ has a parent")
        .to_path_buf()
}

/// The folder of build outputs: `CARGO_TARGET_DIR`, otherwise `target/` in the workspace.
pub fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => root().join(dir),
        None => root().join("target"),
    }
}

/// The `cargo` that started this task.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// Runs a command to its end; an error names the command line and its exit status.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("cannot start {command:?}"))?;
    if !status.success() {
        bail!("{command:?} ended with {status}");
    }
    Ok(())
}

/// Copies a folder.
pub fn copy(from: &Path, to: &Path) -> Result<()> {
    run(Command::new("cp").arg("-rT").args([from, to]))
}

/// A program that cargo has built.
pub struct Program {
    /// The folder of its package.
    pub package: PathBuf,
    pub target: String,
    pub is_test: bool,
    pub path: PathBuf,
}

/// Runs a command of cargo that builds, and returns the programs that it reports.
pub fn programs(command: &mut Command) -> Result<Vec<Program>> {
    command.arg("--message-format=json-render-diagnostics");
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("cannot start {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?} ended with {}", output.status);
    }
    let mut programs = Vec::new();
    for line in String::from_utf8(output.stdout)?.lines() {
        let message: serde_json::Value = serde_json::from_str(line)?;
        let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
        let manifest = text(&message["manifest_path"]).map(PathBuf::from);
        if let (Some(path), Some(target), Some(mut package)) = (
            text(&message["executable"]),
            text(&message["target"]["name"]),
            manifest,
        ) {
            package.pop();
            let is_test = message["profile"]["test"] == true;
            programs.push(Program {
                package,
                target,
                is_test,
                path: path.into(),
            });
        }
    }
    Ok(programs)
}

/// Works on the items with one thread for each core. Returns the first error, after the other threads have done their items.
pub fn on_each_core<T: Sync>(items: &[T], work: impl Fn(&T) -> Result<()> + Sync) -> Result<()> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let work = || {
        let mut items = std::iter::from_fn(|| items.get(next.fetch_add(1, Ordering::Relaxed)));
        items.try_for_each(&work)
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        let ended = |thread: ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|panic| resume_unwind(panic))
        };
        threads.into_iter().try_for_each(ended)
    })
}
