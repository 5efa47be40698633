//! The nightly toolchain, for tasks that the pinned toolchain does not support.

use crate::workspace::root;
use anyhow::{Result, ensure};
use std::process::Command;

/// The target for tasks that must name one.
pub const HOST: &str = "x86_64-unknown-linux-gnu";

/// The `cargo` of the nightly toolchain, for tasks that need `-Z` options.
pub fn cargo() -> Result<Command> {
    let there = Command::new("cargo")
        .args(["+nightly", "--version"])
        .output();
    ensure!(
        there.is_ok_and(|output| output.status.success()),
        "this needs a nightly toolchain: rustup toolchain install nightly --profile minimal"
    );
    let mut command = Command::new("cargo");
    command
        .arg("+nightly")
        .current_dir(root())
        // This task itself runs with another toolchain.
        .env_remove("RUSTUP_TOOLCHAIN")
        .env_remove("CARGO");
    Ok(command)
}
