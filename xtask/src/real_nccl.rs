//! `cargo xtask real-nccl`: compares NVIDIA's own NCCL, the oldest and the newest with a wheel, with the bindings.

use crate::{wheels, workspace};
use anyhow::Result;

/// Version and wheel. Each wheel has some 200 MB.
const NCCLS: [(&str, &str); 2] = [
    ("2.18.1", "nvidia-nccl-cu12==2.18.1"),
    ("2.30.7", "nvidia-nccl-cu13==2.30.7"),
];

/// Fetches the wheels and runs the test that reads them.
pub fn run() -> Result<()> {
    let one = |(version, wheel): (&str, &str)| -> Result<String> {
        let folder = wheels::install(&[wheel])?.join("nvidia/nccl");
        let (library, include) = (folder.join("lib/libnccl.so.2"), folder.join("include"));
        Ok(format!(
            "{version}={}={}",
            library.display(),
            include.display()
        ))
    };
    let all: Vec<String> = NCCLS.into_iter().map(one).collect::<Result<_>>()?;
    let mut cargo = workspace::cargo();
    cargo.args(["test", "-p", "cuda-um-sys", "--test", "real_libraries"]);
    workspace::run(cargo.env("CUDA_UM_TEST_NCCLS", all.join(",")))
}
