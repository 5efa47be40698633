//! Settings, in child processes that run these tests again.
#![cfg(unix)]

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use cuda_um_testkit::{again, is_child};
use um_backend::sim::Sim;
use um_backend::{CudaBackend, CudaBackendConfig};

use crate::wrong_uses::page::{Row, check};

/// What the child says if it opens a backend with these variables.
fn said(variables: &[(&str, &OsStr)]) -> String {
    let mut command = again("wrong_uses::environment::settings");
    command.env("CUDA_UM_RUNTIME", "sim");
    let output = command.envs(variables.iter().copied()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    let said = text.split("said: ").nth(1).expect("the child says it");
    said.lines().next().unwrap_or_default().to_owned()
}

/// The same with a file of this contents as the cost model; the message has a short path.
fn said_of_model(folder: &Path, contents: &str) -> String {
    let file = folder.join("model.json");
    std::fs::write(&file, contents).unwrap();
    let text = said(&[("CUDA_UM_COST_MODEL", file.as_os_str())]);
    text.replace(file.to_str().unwrap(), "model.json")
}

#[test]
fn settings() {
    if is_child() {
        let backend = CudaBackend::initialize_blocking(CudaBackendConfig::default());
        match backend.and_then(|backend| backend.allocate_unified::<f32>(1)) {
            Ok(_) => println!("said: nothing"),
            Err(error) => println!("said: {error}"),
        }
        return;
    }
    let mut rows = Vec::new();
    for (name, value) in [
        ("CUDA_UM_RUNTIME", &b"SIM"[..]),
        ("CUDA_UM_SIM_GPU", b"H200"),
        ("CUDA_UM_SIM_CUDA", b"14"),
        ("CUDA_UM_SIM_DEVICES", b"0"),
        ("CUDA_UM_SIM_KERNEL_CHECKS", b"some"),
        ("CUDA_UM_POOLS", b"no"),
        ("CUDA_UM_COST_MODEL", b"/no/such/file"),
    ] {
        let wrong = format!("`{name}={}`", String::from_utf8_lossy(value));
        rows.push(Row::new(&wrong, said(&[(name, OsStr::from_bytes(value))])));
    }
    rows.push(Row::new(
        "the variable `CUDA_UM_RUNTIM`, which is misspelt",
        said(&[("CUDA_UM_RUNTIM", OsStr::new("sim"))]),
    ));
    let folder = tempfile::tempdir().unwrap();
    rows.push(Row::new(
        "a cost model of `{}`",
        said_of_model(folder.path(), "{}"),
    ));
    let (runtime, file) = (OsStr::new("cuda"), "/no/such/libcudart.so");
    rows.push(Row::new(
        &format!("`CUDA_UM_CUDART={file}`, and no simulator"),
        said(&[
            ("CUDA_UM_RUNTIME", runtime),
            ("CUDA_UM_CUDART", OsStr::new(file)),
        ]),
    ));
    rows.push(Row::new(
        "`Sim::builder().devices(9)`",
        Sim::builder().devices(9).build().unwrap_err().to_string(),
    ));
    check("Settings", &rows);
}
