//! `cargo xtask real-cudart`: compares NVIDIA's own runtimes, CUPTIs and headers with the bindings, and with bindings generated
//! from one toolkit.

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

/// Names of the rows of [`bindgen::HEADERS`].
const HEADERS: [&str; 4] = ["11.8", "12.9", "13.0", "13.5"];

/// Fetches the wheels and runs the tests that read them.
pub fn run() -> Result<()> {
    let mut cudarts = Vec::new();
    for (version, wheel, library) in RUNTIMES {
        cudarts.push(format!(
            "{version}={}",
            wheels::install(&[wheel])?.join(library).display()
        ));
    }
    let mut includes = Vec::new();
    for (version, row) in HEADERS.into_iter().zip(bindgen::HEADERS) {
        let folders: Vec<String> = bindgen::headers(row)?
            .includes
            .iter()
            .map(|folder| folder.display().to_string())
            .collect();
        includes.push(format!("{version}={}", folders.join(":")));
    }
    let mut cuptis = Vec::new();
    for (version, wheel, library, include, row) in CUPTIS {
        let site = wheels::install(&[wheel])?;
        let (_, cuda) = includes[row].split_once('=').expect("version=folders");
        let (library, include) = (site.join(library), site.join(include));
        let (library, include) = (library.display(), include.display());
        cuptis.push(format!("{version}={library}={include}:{cuda}"));
    }
    workspace::run(
        workspace::cargo()
            .args([
                "test",
                "-p",
                "cuda-um-sys",
                "--test",
                "real_cudart",
                "--test",
                "real_cupti",
                "--test",
                "layout",
            ])
            .env("CUDA_UM_TEST_CUDARTS", cudarts.join(","))
            .env("CUDA_UM_TEST_CUPTIS", cuptis.join(","))
            .env("CUDA_UM_TEST_INCLUDES", includes.join(",")),
    )?;
    // The feature `generate`, as on a machine with toolkit 12.9.
    let (_, folders) = includes[1].split_once('=').expect("version=folders");
    workspace::run(
        workspace::cargo()
            .args([
                "test",
                "-p",
                "cuda-um-sys",
                "--features",
                "generate",
                "--lib",
                "--test",
                "layout",
            ])
            .env("LIBCLANG_PATH", bindgen::libclang()?)
            .env("CUDA_UM_INCLUDE", folders)
            .env("CUDA_UM_TEST_INCLUDES", includes.join(",")),
    )
}
