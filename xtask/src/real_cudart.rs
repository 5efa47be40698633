//! `cargo xtask real-cudart`: compares NVIDIA's own runtimes, CUPTIs and headers with the bindings, and with bindings generated
//! from one toolkit; and runs what NVIDIA's NVRTC compiles.

use crate::{bindgen, wheels, workspace};
use anyhow::Result;

/// Version, wheel, and the library in the wheel.
const RUNTIMES: [(&str, &str, &str); 5] = [
    (
        "11.8",
        "nvidia-cuda-runtime-cu11==11.8.89",
        "nvidia/cuda_runtime/lib/libcudart.so.11.0",
    ),
    (
        "12.2",
        "nvidia-cuda-runtime-cu12==12.2.140",
        "nvidia/cuda_runtime/lib/libcudart.so.12",
    ),
    (
        "12.9",
        "nvidia-cuda-runtime-cu12==12.9.79",
        "nvidia/cuda_runtime/lib/libcudart.so.12",
    ),
    (
        "13.0",
        "nvidia-cuda-runtime==13.0.96",
        "nvidia/cu13/lib/libcudart.so.13",
    ),
    (
        "13.5",
        "nvidia-cuda-runtime==13.5.37",
        "nvidia/cu13/lib/libcudart.so.13",
    ),
];

/// Version, wheel of CUPTI, library and headers in the wheel, and the row of [`bindgen::HEADERS`] that has `cuda.h`.
const CUPTIS: [(&str, &str, &str, &str, usize); 4] = [
    (
        "11.8",
        "nvidia-cuda-cupti-cu11==11.8.87",
        "nvidia/cuda_cupti/lib/libcupti.so.11.8",
        "nvidia/cuda_cupti/include",
        0,
    ),
    (
        "12.2",
        "nvidia-cuda-cupti-cu12==12.2.142",
        "nvidia/cuda_cupti/lib/libcupti.so.12",
        "nvidia/cuda_cupti/include",
        1,
    ),
    (
        "12.9",
        "nvidia-cuda-cupti-cu12==12.9.79",
        "nvidia/cuda_cupti/lib/libcupti.so.12",
        "nvidia/cuda_cupti/include",
        1,
    ),
    (
        "13.0",
        "nvidia-cuda-cupti==13.0.85",
        "nvidia/cu13/lib/libcupti.so.13",
        "nvidia/cu13/include",
        2,
    ),
];

/// Wheel of NVRTC, and the library in it.
const NVRTC: (&str, &str) = (
    "nvidia-cuda-nvrtc-cu12==12.9.86",
    "nvidia/cuda_nvrtc/lib/libnvrtc.so.12",
);

/// Names of the rows of [`bindgen::HEADERS`].
const HEADERS: [&str; 4] = ["11.8", "12.9", "13.0", "13.5"];

/// The options of pip for wheels for aarch64 (servers: SBSA).
const AARCH64: &[&str] = &["--platform", "manylinux2014_aarch64"];
/// The versions that have no wheel for aarch64.
const NOT_FOR_AARCH64: [&str; 1] = ["12.2"];

/// The library of each version, for this machine and for aarch64.
fn cudarts() -> Result<String> {
    let here = RUNTIMES.map(|runtime| (&[] as &[&str], runtime));
    let arm = RUNTIMES.map(|runtime| (AARCH64, runtime)).into_iter();
    let arm = arm.filter(|(_, (version, ..))| !NOT_FOR_AARCH64.contains(version));
    let one = |(platform, (version, wheel, library)): (&[&str], (&str, &str, &str))| {
        let library = wheels::install_for(platform, &[wheel])?.join(library);
        Ok(format!("{version}={}", library.display()))
    };
    let all: Result<Vec<String>> = here.into_iter().chain(arm).map(one).collect();
    Ok(all?.join(","))
}

/// The include folders of each row of [`bindgen::HEADERS`].
fn includes() -> Result<Vec<String>> {
    let one = |row| -> Result<String> {
        let folders = bindgen::headers(row)?.includes;
        let folders = folders.iter().map(|folder| folder.display().to_string());
        Ok(folders.collect::<Vec<String>>().join(":"))
    };
    bindgen::HEADERS.into_iter().map(one).collect()
}

/// The library and the include folders of each CUPTI.
fn cuptis(includes: &[String]) -> Result<String> {
    let mut cuptis = Vec::new();
    for (version, wheel, library, include, row) in CUPTIS {
        let site = wheels::install(&[wheel])?;
        let (library, include) = (site.join(library), site.join(include));
        let (library, include) = (library.display(), include.display());
        cuptis.push(format!("{version}={library}={include}:{}", includes[row]));
    }
    Ok(cuptis.join(","))
}

/// Fetches the wheels and runs the tests that read them.
pub fn run() -> Result<()> {
    let (cudarts, includes) = (cudarts()?, includes()?);
    let named = HEADERS.into_iter().zip(&includes);
    let named: Vec<String> = named
        .map(|(version, folders)| format!("{version}={folders}"))
        .collect();
    let named = named.join(",");
    let test = |arguments: &[&str]| {
        let mut cargo = workspace::cargo();
        cargo.args(["test", "-p", "cuda-um-sys"]).args(arguments);
        cargo.env("CUDA_UM_TEST_INCLUDES", &named);
        cargo
    };
    workspace::run(
        test(&[
            "--test",
            "real_cudart",
            "--test",
            "real_libraries",
            "--test",
            "layout",
        ])
        .env("CUDA_UM_TEST_CUDARTS", cudarts)
        .env("CUDA_UM_TEST_CUPTIS", cuptis(&includes)?),
    )?;
    // The feature `generate`, as on a machine with toolkit 12.9.
    workspace::run(
        test(&["--features", "generate", "--lib", "--test", "layout"])
            .env("LIBCLANG_PATH", bindgen::libclang()?)
            .env("CUDA_UM_INCLUDE", &includes[1]),
    )?;
    let (wheel, library) = NVRTC;
    let mut compile = workspace::cargo();
    compile.args([
        "test",
        "-p",
        "cuda-um",
        "--features",
        "nvrtc",
        "--test",
        "nvrtc",
    ]);
    compile.env("CUDA_UM_NVRTC", wheels::install(&[wheel])?.join(library));
    workspace::run(&mut compile)
}
