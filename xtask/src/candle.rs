//! `cargo xtask candle`: builds and tests `integrations/um-candle`, whose build needs nvcc and CUDA's libraries.
//!
//! nvcc comes from the pinned wheels of `build-kernels`. The libraries with which the programs are linked are those of the simulator, and
//! small ones in the place of libcublas, libcurand and libcudart (`integrations/um-candle/sim`). They have the names of the real ones, so
//! the same programs run on a GPU with the libraries of a CUDA 13 toolkit.

use crate::integration::{self, Integration};
use crate::{build_kernels, sim_lib, workspace};
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;
use std::process::Command;

/// The version of `build_kernels::COMPILER` in cudarc's form.
const CUDA_VERSION: &str = "13000";

/// File names of the libraries, and the sources; a library without one only has to exist.
const LIBRARIES: [(&str, Option<&str>); 6] = [
    (KERNELS, Some("kernels.c")),
    ("libcudart.so.13", Some("cudart.c")),
    ("libcublas.so.13", Some("cublas.c")),
    ("libcurand.so.10", Some("curand.c")),
    ("libcublasLt.so.13", None),
    ("libnvrtc.so.13", None),
];

/// The library of `CUDA_UM_SIM_KERNELS`: nothing is linked with it.
const KERNELS: &str = "libcandle_kernels.so.0";

/// Options of `cargo xtask candle`.
#[derive(clap::Args)]
pub struct Args {
    /// The compute capability for which candle's kernels are compiled.
    #[arg(long, default_value = "90")]
    compute_capability: String,
    #[command(flatten)]
    common: integration::Common,
}

const CANDLE: Integration = Integration {
    folder: "um-candle",
    test: "candle",
    examples: &["block", "weights"],
    arguments: &["--small"],
};

/// Runs cargo in the integration's workspace.
pub fn run(args: &Args) -> Result<()> {
    let root = CANDLE.root();
    let toolkit = build_kernels::toolkit()?;
    let simulator = sim_lib::build(true)?;
    let libraries = workspace::target().join("candle-libraries");
    make_libraries(&root.join("sim"), &simulator, &libraries)?;
    let folders = std::env::join_paths([&libraries, &simulator])?;
    let bin = toolkit.join("bin");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut cargo = CANDLE.cargo(&folders);
    cargo
        .env("CUDA_HOME", &toolkit)
        .env("NVCC", bin.join("nvcc"))
        .env(
            "PATH",
            std::env::join_paths([bin].into_iter().chain(std::env::split_paths(&path)))?,
        )
        .env(
            "NVCC_APPEND_FLAGS",
            format!("-I{}", toolkit.join("include").display()),
        )
        .env("CUDA_COMPUTE_CAP", &args.compute_capability)
        .env("CUDARC_CUDA_VERSION", CUDA_VERSION)
        .env("LIBRARY_PATH", &folders)
        .env("CUDA_UM_SIM_KERNELS", libraries.join(KERNELS));
    args.common.run(&CANDLE, &mut cargo)
}

/// Compiles the libraries of `sim`.
fn make_libraries(sources: &Path, simulator: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for (name, source) in LIBRARIES {
        let mut compiler = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
        compiler.args(["-O1", "-Wall", "-Wextra", "-shared", "-fPIC", "-x", "c"]);
        compiler.arg(source.map_or("/dev/null".into(), |source| sources.join(source)));
        compiler.args([
            format!("-Wl,-soname,{name}"),
            "-Wl,--no-as-needed".to_owned(),
        ]);
        compiler
            .arg("-L")
            .arg(simulator)
            .args(["-l:libcuda.so.1", "-lm", "-o"]);
        workspace::run(compiler.arg(to.join(name)))?;
        let (short, _) = name.split_once(".so.").context("a library has a version")?;
        let link = to.join(format!("{short}.so"));
        if !link.exists() {
            std::os::unix::fs::symlink(name, link)?;
        }
    }
    Ok(())
}
