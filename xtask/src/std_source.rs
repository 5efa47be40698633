//! The pinned toolchain, with a standard library that is built from source.

use crate::workspace;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The pinned toolchain's `cargo`, which builds the standard library from source: from the given folder, otherwise from the
/// component `rust-src`.
pub fn cargo(rust_src: Option<&Path>) -> Result<Command> {
    let folder = match rust_src {
        Some(folder) => std::path::absolute(folder)?,
        None => component()?,
    };
    let library = folder.join("library");
    ensure!(
        library.join("std/Cargo.toml").exists(),
        "the standard library's source is not in {}: `rustup component add rust-src`, or name a folder with that of the pinned toolchain by \
         --rust-src, for instance where the package rust-src of that version was unpacked: `dpkg -x rust-src_1.95.0*.deb FOLDER`, then \
         FOLDER/usr/src/rustc-1.95.0",
        library.display()
    );
    let mut command = workspace::cargo();
    command
        // With this variable a stable release accepts unstable options.
        .env("RUSTC_BOOTSTRAP", "1")
        // Cargo looks only beside the compiler and has no option for another path, but its own tests use this variable. If a
        // later cargo removes it, cargo reports that `rust-src` is missing.
        .env("__CARGO_TESTS_ONLY_SRC_ROOT", library)
        .arg("-Zbuild-std");
    Ok(command)
}

/// The folder in which rustup puts the component.
fn component() -> Result<PathBuf> {
    let output = Command::new("rustc")
        .args(["--print", "sysroot"])
        .current_dir(workspace::root())
        .output()
        .context("cannot start rustc")?;
    let sysroot = String::from_utf8(output.stdout)?;
    Ok(Path::new(sysroot.trim()).join("lib/rustlib/src/rust"))
}
