//! The tests of the programs and of replays.

mod calibrate;
mod peer;
mod replay;
mod replay_limits;
mod um_bench;
mod um_replay;
mod um_scale;

use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A program, in cargo's target folder or in the folder of the bundle.
fn program(name: &str, built: &str) -> Command {
    Command::new(match std::env::var_os("CUDA_UM_BIN_DIR") {
        Some(folder) => Path::new(&folder).join(name),
        None => built.into(),
    })
}

/// Serializes the replays, because a process has one profiler.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}
