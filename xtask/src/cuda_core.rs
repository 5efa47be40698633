//! `cargo xtask cuda-core`: builds and tests `integrations/um-cuda-core`, whose build needs headers of CUDA 13, libclang, and for cuTile the
//! assembler `tileiras`. All of them come from pinned wheels. The programs open libcuda at run time: here the simulator's, otherwise a GPU's.

use crate::integration::{Common, Integration};
use crate::{bindgen, sim_lib, wheels, workspace};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// The headers of the oldest version that cuda-core takes, and the oldest assembler for compute capability 9.0 with what it calls.
const TOOLKIT: [&str; 6] = [
    "nvidia-cuda-runtime==13.0.96",
    "nvidia-cuda-crt==13.0.88",
    "nvidia-curand==10.4.0.35",
    "nvidia-cuda-tileiras==13.3.36",
    "nvidia-cuda-nvcc==13.3.33",
    "nvidia-nvvm==13.3.33",
];

const CUDA_CORE: Integration = Integration {
    folder: "um-cuda-core",
    test: "cuda_core",
    examples: &["saxpy"],
    arguments: &["--simulator"],
};

/// Runs cargo in the integration's workspace.
pub fn run(options: &Common) -> Result<()> {
    let toolkit = wheels::install(&TOOLKIT)?.join("nvidia/cu13");
    let tileiras = toolkit.join("bin/tileiras");
    let folder = output(Command::new("gcc").arg("-print-file-name=include"))?;
    let simulator = sim_lib::build(true)?;
    let mut cargo = CUDA_CORE.cargo(simulator.as_os_str());
    cargo
        .env("CUDA_TOOLKIT_PATH", &toolkit)
        .env("LIBCLANG_PATH", bindgen::libclang()?)
        // libclang has no headers of its own.
        .env(
            "BINDGEN_EXTRA_CLANG_ARGS",
            format!("-isystem {}", folder.trim()),
        );
    options.run(&CUDA_CORE, &mut cargo)?;
    match &options.bundle {
        Some(out) => add_kernels(&workspace::root().join(out), &simulator, &tileiras),
        None => Ok(()),
    }
}

/// Adds the native code of cuTile's kernel, so that the bundle needs no assembler of 95 MB: cuTile finds the code by its input and by what the
/// assembler says of itself.
fn add_kernels(bundle: &Path, simulator: &Path, tileiras: &Path) -> Result<()> {
    let kernels = bundle.join("kernels");
    let _ = fs::remove_dir_all(&kernels);
    let mut example = Command::new(bundle.join(CUDA_CORE.examples[0]));
    example
        .args(CUDA_CORE.arguments)
        .arg(&kernels)
        .env("LD_LIBRARY_PATH", simulator);
    workspace::run(example.env("CUTILE_TILEIRAS_PATH", tileiras))?;
    ensure!(
        kernels.read_dir().is_ok_and(|files| files.count() > 0),
        "cuTile wrote no code"
    );
    let mut script =
        "#!/bin/sh\n# What the assembler of the kernels says of itself. It assembles nothing.\n"
            .to_owned();
    for option in ["--version", "--list-versions"] {
        let text = output(Command::new(tileiras).arg(option))?;
        script += &format!("[ \"$1\" = {option} ] && exec cat <<'END'\n{text}END\n");
    }
    let file = bundle.join("tileiras");
    fs::write(&file, script + "exit 1\n")?;
    Ok(fs::set_permissions(
        file,
        fs::Permissions::from_mode(0o755),
    )?)
}

/// What a command prints.
fn output(command: &mut Command) -> Result<String> {
    let output = command
        .output()
        .with_context(|| format!("cannot start {command:?}"))?;
    ensure!(
        output.status.success(),
        "{command:?} ended with {}",
        output.status
    );
    Ok(String::from_utf8(output.stdout)?)
}
