//! `cargo xtask bench-peers`: builds the compiled peers of the measurements, stripped, and adds the libraries that they need.
//!
//! Headers, the runtime and RMM come from pinned wheels; the Rust peers have their own lock files. Only a C++ compiler is
//! needed.

use crate::{wheels, workspace};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Headers and the static runtime of CUDA 13.0.
const CUDA: [&str; 2] = ["nvidia-cuda-runtime==13.0.96", "nvidia-cuda-crt==13.0.88"];
/// RMM, the CCCL and NVTX headers of its build, and the logger that it links.
const RMM: [&str; 2] = ["librmm-cu13==26.10.0", "rapids-logger==0.3.0"];
/// The version that the peer reports: the one in [`RMM`].
const RMM_VERSION: &str = "26.10.0";

/// The static runtime needs these system libraries.
const SYSTEM: [&str; 3] = ["-ldl", "-lpthread", "-lrt"];

/// Options of `cargo xtask bench-peers`.
#[derive(clap::Args)]
pub struct Args {
    /// Output folder [default: `peers` in the target folder, where `cargo xtask bench` finds them].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Builds all peers; it fails if one could not be built.
pub fn run(args: &Args) -> Result<()> {
    let out = match &args.out {
        Some(out) => std::path::absolute(out)?,
        None => workspace::target().join("peers"),
    };
    let failed = build(&out)?;
    for (peer, why) in &failed {
        eprintln!("{peer}: {why}");
    }
    if !failed.is_empty() {
        let names: Vec<_> = failed.iter().map(|(peer, _)| *peer).collect();
        bail!("not built: {}", names.join(", "));
    }
    println!("{}", out.display());
    Ok(())
}

/// Builds all peers into a folder, and returns those that could not be built, with reasons.
pub fn build(out: &Path) -> Result<Vec<(&'static str, String)>> {
    type Build = fn(&Path, &Path) -> Result<()>;
    const PEERS: [(&str, Build); 3] = [
        ("cuda_cpp_peer", cuda_cpp),
        ("rmm_peer", rmm),
        ("cudarc_peer", |name, out| rust("cudarc", name, out)),
    ];
    fs::create_dir_all(out)?;
    let mut failed = Vec::new();
    for (name, build) in PEERS {
        let built = build(Path::new(name), out).and_then(|()| strip(&out.join(name)));
        if let Err(error) = built {
            failed.push((name, format!("{error:#}")));
        }
    }
    Ok(failed)
}

fn sources() -> PathBuf {
    workspace::root().join("benches/peers")
}

fn cuda_cpp(name: &Path, out: &Path) -> Result<()> {
    let cuda = wheels::install(&CUDA)?.join("nvidia/cu13");
    let mut compiler = compiler("c++17", &cuda);
    let ptx = sources().with_file_name("src/scale_in_place.ptx");
    compiler.arg(format!("-DSCALE_PTX=\"{}\"", ptx.display()));
    compiler.arg(sources().join("cuda_cpp/main.cpp"));
    link(&mut compiler, &cuda, &out.join(name))
}

fn rmm(name: &Path, out: &Path) -> Result<()> {
    let (cuda, rmm) = (wheels::install(&CUDA)?, wheels::install(&RMM)?);
    let cuda = cuda.join("nvidia/cu13");
    let libraries = [
        rmm.join("librmm/lib64/librmm.so"),
        rmm.join("rapids_logger/lib64/librapids_logger.so"),
    ];
    let mut compiler = compiler("c++20", &cuda);
    compiler.arg(format!("-DRMM_PINNED_VERSION=\"{RMM_VERSION}\""));
    for include in [
        "librmm/include/rapids",
        "librmm/include",
        "rapids_logger/include",
    ] {
        compiler.arg("-isystem").arg(rmm.join(include));
    }
    // The libraries are in the folder of the program, so that both can be copied together.
    compiler
        .arg(sources().join("rmm/main.cpp"))
        .args(&libraries)
        .arg("-Wl,-rpath,$ORIGIN");
    link(&mut compiler, &cuda, &out.join(name))?;
    for library in libraries {
        let target = out.join(library.file_name().context("a library has a name")?);
        fs::copy(&library, target)?;
    }
    Ok(())
}

fn compiler(standard: &str, cuda: &Path) -> Command {
    let mut compiler = Command::new(std::env::var_os("CXX").unwrap_or_else(|| "g++".into()));
    compiler
        .arg(format!("-std={standard}"))
        .args(["-O2", "-Wall", "-Wextra", "-isystem"])
        .arg(cuda.join("include"));
    compiler
}

fn link(compiler: &mut Command, cuda: &Path, program: &Path) -> Result<()> {
    compiler
        .arg(cuda.join("lib/libcudart_static.a"))
        .args(SYSTEM)
        .arg("-o")
        .arg(program);
    workspace::run(compiler).context("the C++ peers are compiled with g++ (set CXX for another)")
}

fn rust(folder: &str, name: &Path, out: &Path) -> Result<()> {
    let target = workspace::target().join("peers-build");
    let mut cargo = workspace::cargo();
    cargo
        .current_dir(sources().join(folder))
        .args(["build", "--release", "--locked", "--target-dir"])
        .arg(&target);
    workspace::run(&mut cargo)?;
    fs::copy(target.join("release").join(name), out.join(name))?;
    Ok(())
}

fn strip(program: &Path) -> Result<()> {
    workspace::run(Command::new("strip").arg(program))
        .context("`strip` comes with the C compiler's binutils")
}
