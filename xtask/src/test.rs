//! `cargo xtask test`: the tests of the workspace, or with `--gpu` the conformance cases on the GPU of this machine.

use crate::{gpu_bundle, workspace};
use anyhow::Result;
use std::path::PathBuf;
use std::process::Command;

/// Options of `cargo xtask test`.
#[derive(clap::Args)]
pub struct Args {
    /// Run the conformance cases on the GPU and on the simulator, and compare them (docs/conformance.md)
    #[arg(long)]
    gpu: bool,
    /// Folder for the results
    #[arg(long, value_name = "DIR", default_value = "results", requires = "gpu")]
    out: PathBuf,
    /// A bundle from `cargo xtask gpu-bundle` [default: packs one now]
    #[arg(long, value_name = "DIR", requires = "gpu")]
    bundle: Option<PathBuf>,
}

/// Runs the tests.
pub fn run(args: &Args) -> Result<()> {
    if !args.gpu {
        return workspace::run(workspace::cargo().args(["test", "--workspace"]));
    }
    let bundle = match &args.bundle {
        Some(bundle) => std::path::absolute(bundle)?,
        None => {
            let out = workspace::target().join("gpu-bundle");
            gpu_bundle::pack(&out)?;
            out
        }
    };
    let out = std::path::absolute(&args.out)?;
    workspace::run(
        Command::new(bundle.join("run.sh"))
            .arg(out)
            .arg("conformance"),
    )
}
