//! The files of a release: packages, bills of materials, wheels, and their SHA-256 sums.

use super::packages::Packed;
use crate::workspace;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

const SUMS: &str = "SHA256SUMS";

/// The folder with the files of a release.
pub fn folder() -> PathBuf {
    workspace::target().join("dist")
}

/// Empties the folder, and copies the packages there.
pub fn start(packed: &[Packed]) -> Result<()> {
    if folder().exists() {
        fs::remove_dir_all(folder())?;
    }
    fs::create_dir_all(folder())?;
    for one in packed {
        fs::copy(&one.file, folder().join(one.name()))?;
    }
    Ok(())
}

/// Writes and prints the sums of all files.
pub fn sums() -> Result<()> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder())? {
        names.push(entry?.file_name());
    }
    names.sort();
    let mut sums = Command::new("sha256sum");
    let output = sums.current_dir(folder()).args(names).output()?;
    ensure!(output.status.success(), "sha256sum: {}", output.status);
    fs::write(folder().join(SUMS), &output.stdout)?;
    println!(
        "\nthe files of the release are in {}:\n{}",
        folder().display(),
        String::from_utf8(output.stdout)?
    );
    Ok(())
}

/// Checks that the folder has the files that an earlier run tested, among them these packages, and wheels.
pub fn same(packed: &[Packed]) -> Result<()> {
    let mut check = Command::new("sha256sum");
    check
        .current_dir(folder())
        .args(["--check", "--quiet", SUMS]);
    workspace::run(&mut check).context("run `cargo xtask release --dry-run --wheels` first")?;
    for one in packed {
        ensure!(
            fs::read(&one.file)? == fs::read(folder().join(one.name()))?,
            "{} is not the package that was tested",
            one.name()
        );
    }
    Ok(())
}
