//! `cargo xtask python-wheels`: the wheels of the Python package for Linux, one for each machine.
//!
//! zig links with the symbols of an old glibc, for any machine, without a cross compiler. maturin checks that the wheel needs no newer ones.

use crate::{wheels, workspace};
use anyhow::{Result, ensure};
use std::path::PathBuf;
use std::process::Command;

/// maturin is that of `python/tests/requirements.txt`.
const TOOLS: [&str; 2] = ["maturin==1.16.0", "ziglang==0.17.1"];

const TARGETS: [&str; 2] = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"];

/// Options of `cargo xtask python-wheels`.
#[derive(clap::Args)]
pub struct Args {
    /// The targets, each installed with `rustup target add`.
    #[arg(default_values = TARGETS)]
    targets: Vec<String>,
}

impl Args {
    /// All targets.
    pub fn all() -> Self {
        Self {
            targets: TARGETS.map(Into::into).into(),
        }
    }
}

/// The folder of the wheels.
pub fn folder() -> PathBuf {
    workspace::target().join("dist")
}

/// Builds the wheels into `dist` in the target folder.
pub fn run(args: &Args) -> Result<()> {
    let tools = wheels::install(&TOOLS)?;
    let out = folder();
    for target in &args.targets {
        let mut maturin = Command::new(tools.join("bin/maturin"));
        maturin.current_dir(workspace::root());
        // maturin starts zig as `python3 -m ziglang`.
        maturin.env("PYTHONPATH", &tools);
        maturin.args(["build", "--release", "--locked", "--zig"]);
        // glibc 2.17, the oldest that Rust's own libraries support.
        maturin.args(["--compatibility", "manylinux2014", "--target", target]);
        maturin.args(["--manifest-path", "python/Cargo.toml", "--out"]);
        workspace::run(maturin.arg(&out))?;
    }
    let mut count = 0;
    for entry in std::fs::read_dir(&out)? {
        println!("{}", entry?.path().display());
        count += 1;
    }
    ensure!(count > 0, "maturin wrote no wheel to {}", out.display());
    Ok(())
}
