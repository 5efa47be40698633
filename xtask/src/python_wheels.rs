//! `cargo xtask python-wheels`: the wheels of the Python package for Linux, one for each machine.
//!
//! zig links with the symbols of an old glibc, for any machine, without a cross compiler. maturin checks that the wheel needs no newer ones.
//! The functions that unwind are those of the system's libgcc_s: CPython ends threads by `pthread_exit`, whose frames zig's own copy cannot read.

use crate::{wheels, workspace};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// maturin is that of `python/tests/requirements.txt`.
const TOOLS: [&str; 2] = ["maturin==1.16.0", "ziglang==0.17.1"];

const TARGETS: [&str; 2] = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"];

/// What Rust uses of libgcc_s.
const UNWINDER: &str = "
void _Unwind_Backtrace(void) {} void _Unwind_DeleteException(void) {} void _Unwind_GetCFA(void) {} void _Unwind_GetDataRelBase(void) {}
void _Unwind_FindEnclosingFunction(void) {} void _Unwind_GetIP(void) {} void _Unwind_GetIPInfo(void) {}
void _Unwind_GetLanguageSpecificData(void) {} void _Unwind_GetRegionStart(void) {} void _Unwind_GetTextRelBase(void) {}
void _Unwind_RaiseException(void) {} void _Unwind_Resume(void) {} void _Unwind_SetGR(void) {} void _Unwind_SetIP(void) {}
";

/// Options of `cargo xtask python-wheels`.
#[derive(clap::Args)]
pub struct Args {
    /// The targets, each installed with `rustup target add`.
    #[arg(default_values = TARGETS)]
    targets: Vec<String>,
}

/// Builds the wheels into `dist` in the target folder, and tests that of this machine in an environment that has only it.
pub fn run(args: &Args) -> Result<()> {
    let tools = wheels::install(&TOOLS)?;
    let out = workspace::target().join("dist");
    for target in &args.targets {
        let unwinder = unwinder(&tools, target)?;
        let mut maturin = Command::new(tools.join("bin/maturin"));
        maturin.current_dir(workspace::root());
        // maturin starts zig as `python3 -m ziglang`.
        maturin.env("PYTHONPATH", &tools);
        let name = target.to_uppercase().replace('-', "_");
        maturin.env(
            format!("CARGO_TARGET_{name}_RUSTFLAGS"),
            format!("-L native={} -l dylib=unwinder", unwinder.display()),
        );
        maturin.args(["build", "--release", "--locked", "--zig"]);
        // glibc 2.17, the oldest that Rust's own libraries support.
        maturin.args(["--compatibility", "manylinux2014", "--target", target]);
        maturin.args(["--manifest-path", "python/Cargo.toml", "--out"]);
        workspace::run(maturin.arg(&out))?;
    }
    let machine = format!("_{}.whl", std::env::consts::ARCH);
    let mut count = 0;
    for entry in fs::read_dir(&out)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        count += usize::from(name.ends_with(".whl"));
        println!("{}", path.display());
        if name.ends_with(&machine) {
            let mut test = Command::new(".ci/python");
            test.current_dir(workspace::root()).arg("--wheel");
            workspace::run(test.arg(&path).arg("python3"))?;
        }
    }
    ensure!(count > 0, "maturin wrote no wheel to {}", out.display());
    Ok(())
}

/// A folder with a library to link with in the place of libgcc_s, whose name it has.
fn unwinder(tools: &Path, target: &str) -> Result<PathBuf> {
    let folder = workspace::target().join("unwinder").join(target);
    fs::create_dir_all(&folder)?;
    let source = folder.join("unwinder.c");
    fs::write(&source, UNWINDER)?;
    let (machine, _) = target.split_once('-').context("a target has parts")?;
    let mut zig = Command::new("python3");
    zig.env("PYTHONPATH", tools).args(["-m", "ziglang", "cc"]);
    zig.args(["-target", &format!("{machine}-linux-gnu.2.17"), "-shared"]);
    zig.args(["-nostdlib", "-Wl,-soname,libgcc_s.so.1", "-o"]);
    workspace::run(zig.arg(folder.join("libunwinder.so")).arg(&source))?;
    Ok(folder)
}
