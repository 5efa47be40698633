//! The package of the registry, whose library has the tests.

use super::{LIMIT, Outcomes, outcome, search_path};
use crate::{wheels, workspace};
use anyhow::{Context, Result};
use std::path::Path;
use std::process::{Command, Stdio};

const CUDARC: &str = "0.19.10";

pub(super) fn cudarc(libraries: &Path) -> Result<Outcomes> {
    let nvrtc = wheels::install(&["nvidia-cuda-nvrtc-cu12==12.9.86"])?;
    let search = search_path(libraries, &[nvrtc.join("nvidia/cuda_nvrtc/lib")])?;
    let folder = workspace::target().join("judge");
    let package = folder.join(format!("cudarc-{CUDARC}"));
    if !package.is_dir() {
        let archive = folder.join("cudarc.crate");
        let address = format!("https://static.crates.io/crates/cudarc/cudarc-{CUDARC}.crate");
        workspace::run(
            Command::new("curl")
                .args([
                    "--silent",
                    "--show-error",
                    "--fail",
                    "--location",
                    "--output",
                ])
                .arg(&archive)
                .arg(address),
        )?;
        workspace::run(
            Command::new("tar")
                .arg("xzf")
                .arg(&archive)
                .arg("-C")
                .arg(&folder),
        )?;
        // It is no member of the workspace around it.
        let manifest = package.join("Cargo.toml");
        let text = std::fs::read_to_string(&manifest)? + "\n[workspace]\n";
        std::fs::write(&manifest, text)?;
    }
    let mut cargo = workspace::cargo();
    cargo
        .current_dir(&package)
        .env("CARGO_TARGET_DIR", folder.join("target"));
    cargo.args([
        "test",
        "--quiet",
        "--no-run",
        "--lib",
        "--no-default-features",
        "--message-format",
        "json",
        "--features",
    ]);
    cargo.arg("std,driver,runtime,nvrtc,f16,dynamic-loading,cuda-12090");
    let built = cargo.stderr(Stdio::inherit()).output()?;
    let text = String::from_utf8(built.stdout)?;
    let key = "\"executable\":\"";
    let at = text.rfind(key).context("cudarc's tests do not compile")? + key.len();
    let program = text[at..].split('"').next().unwrap_or_default();
    let test = || {
        let mut test = Command::new(program);
        test.current_dir(&package).env("LD_LIBRARY_PATH", &search);
        test.envs([("CUDA_UM_SIM_CUDA", "12.9"), ("CUDA_UM_SIM_DEVICES", "2")]);
        test
    };
    let list = test().arg("--list").output()?;
    let list = String::from_utf8(list.stdout)?;
    let names = list.lines().filter_map(|line| line.strip_suffix(": test"));
    let run = |name: &str| {
        let mut test = test();
        test.args(["--include-ignored", "--test-threads=1", "--exact", name]);
        let outcome = outcome(&mut test, LIMIT)?;
        Ok((name.to_owned(), outcome))
    };
    names.map(run).collect()
}
