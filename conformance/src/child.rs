//! Runs a case in a separate process.

use crate::case::LIMIT;
use crate::{Case, Choice, Outcome, Record};
use anyhow::{Context, Result};
use std::any::Any;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Runs `program case NAME`, which prints the record as JSON.
pub(crate) fn run(program: &Path, choice: Choice, case: &Case) -> Result<Record> {
    let mut command = Command::new(program);
    command.arg("case").arg(case.name).args(choice.arguments());
    let started = Instant::now();
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {command:?}"))?;
    let answer = match output.status.success() {
        true => serde_json::from_slice(&output.stdout).ok(),
        false => None,
    };
    Ok(answer.unwrap_or_else(|| {
        let said = String::from_utf8_lossy(&output.stderr);
        let last: Vec<&str> = said.lines().rev().take(3).collect();
        let late = if started.elapsed() >= LIMIT {
            ", at its time limit"
        } else {
            ""
        };
        let last: Vec<&str> = last.into_iter().rev().collect();
        let text = format!(
            "its process ended with {}{late}: {}",
            output.status,
            last.join(" | ")
        );
        Record::new(case.name, Outcome::Failed(text))
    }))
}

/// The text of a panic.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let owned = panic.downcast_ref::<String>().map(String::as_str);
    owned
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no text")
}
