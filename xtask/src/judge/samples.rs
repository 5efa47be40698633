//! NVIDIA's samples. nvcc of the wheels builds them with PTX only and a shared libcudart.

use super::{LIMIT, LONG, Outcomes, checkout, outcome, search_path};
use crate::wheels;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

const TOOLKIT: [&str; 8] = [
    "nvidia-cuda-nvcc==13.0.88",
    "nvidia-nvvm==13.0.88",
    "nvidia-cuda-crt==13.0.88",
    "nvidia-cuda-runtime==13.0.96",
    "nvidia-cuda-cccl==13.0.85",
    "nvidia-cuda-nvrtc==13.0.88",
    "nvidia-cuda-profiler-api==13.0.85",
    "nvidia-curand==10.4.0.35",
];

/// A sample that includes a header which begins with one of these needs graphics, or a library of native code.
const LIBRARIES: &str = "GL/ GLFW EGL/ eglstrm vulkan d3d D3D FreeImage nvsci mpi.h npp cublas cusparse cusolver cufft curand.h nvjpeg helper_nvJPEG nvJitLink nvtx3 llvm cuda_gl";

/// The files of a folder with one of these extensions.
fn files(folder: &Path, extensions: &[&str]) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let has = |path: &PathBuf| {
        path.extension()
            .is_some_and(|is| extensions.iter().any(|of| is == *of))
    };
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(has).collect();
    files.sort();
    files
}

/// Whether a file includes a header of [`LIBRARIES`].
fn needs_a_library(file: &PathBuf) -> bool {
    let text = std::fs::read(file).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let mut lines = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("#include "));
    lines.any(|name| {
        let name = name.trim_start_matches(['<', '"']);
        LIBRARIES
            .split(' ')
            .any(|library| name.starts_with(library))
    })
}

/// Builds a sample in its folder, and the images that it loads from files.
fn build(
    folder: &Path,
    name: &str,
    sources: &[PathBuf],
    toolkit: &Path,
    libraries: &Path,
) -> Result<(bool, String)> {
    let nvcc = || {
        let mut nvcc = Command::new(toolkit.join("bin/nvcc"));
        nvcc.current_dir(folder).args([
            "-std=c++17",
            "-w",
            "-gencode",
            "arch=compute_80,code=compute_80",
        ]);
        nvcc.args(["-I.", "-Iinc", "-I../../../Common"]);
        for include in ["include", "include/cccl"] {
            nvcc.arg("-I").arg(toolkit.join(include));
        }
        nvcc
    };
    for kernel in sources
        .iter()
        .filter_map(|source| source.to_str()?.strip_suffix("_kernel.cu"))
    {
        for (option, extension) in [("-fatbin", "fatbin"), ("-ptx", "ptx")] {
            let image = format!("{kernel}_kernel64.{extension}");
            // Some are parts of a program, which do not compile alone.
            outcome(
                nvcc()
                    .arg(option)
                    .arg(format!("{kernel}_kernel.cu"))
                    .args(["-o", &image]),
                LIMIT,
            )?;
        }
    }
    let mut program = nvcc();
    program
        .args(sources)
        .args(["-cudart", "none", "-Xcompiler", "-fopenmp", "-o", name]);
    for (folder, library) in [
        (&toolkit.join("lib"), "cudart.so.13"),
        (&toolkit.join("lib"), "nvrtc.so.13"),
        (&libraries.to_owned(), "cuda.so.1"),
    ] {
        program
            .arg("-L")
            .arg(folder)
            .arg(format!("-l:lib{library}"));
    }
    outcome(program.args(["-Xlinker", "--allow-shlib-undefined"]), LONG)
}

pub(super) fn samples(libraries: &Path, source: Option<&Path>) -> Result<Outcomes> {
    let checkout = checkout("https://github.com/NVIDIA/cuda-samples", "v13.0", source)?;
    let toolkit = wheels::install(&TOOLKIT)?.join("nvidia/cu13");
    let search = search_path(libraries, &[toolkit.join("lib")])?;
    let mut outcomes = Outcomes::new();
    let kinds = checkout.join("Samples");
    for kind in std::fs::read_dir(&kinds).with_context(|| kinds.display().to_string())? {
        let Ok(entries) = std::fs::read_dir(kind?.path()) else {
            continue;
        };
        for entry in entries {
            let entry = entry?;
            let folder = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            let all = [
                files(&folder, &["cu", "cpp", "h", "cuh", "hpp"]),
                files(&folder.join("src"), &["cu", "cpp"]),
                files(&folder.join("inc"), &["h"]),
            ]
            .concat();
            let sources: Vec<PathBuf> = all
                .iter()
                .filter(|file| file.extension().is_some_and(|is| is == "cu" || is == "cpp"))
                .cloned()
                .collect();
            if sources.is_empty() || all.iter().any(needs_a_library) {
                continue;
            }
            let mut result = (true, String::new());
            if !folder.join(&name).is_file() {
                result = build(&folder, &name, &sources, &toolkit, libraries)?;
            }
            if result.0 {
                let mut test = Command::new(folder.join(&name));
                test.current_dir(&folder)
                    .env("LD_LIBRARY_PATH", &search)
                    .env("CUDA_HOME", &toolkit)
                    .env("CUDA_PATH", &toolkit);
                test.envs([("CUDA_UM_SIM_CUDA", "13.0"), ("CUDA_UM_SIM_DEVICES", "2")]);
                test.env("CUDA_UM_SIM_KERNEL_CHECKS", "none");
                result = outcome(&mut test, LIMIT)?;
            }
            outcomes.insert(name, result);
        }
    }
    Ok(outcomes)
}
