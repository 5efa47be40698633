//! Invalid values of `CUDA_UM_RUNTIME`, in child processes that run this test again.

use std::process::Command;

use um_backend::{CudaBackend, CudaBackendConfig, CudaDevice};

const CHILD: &str = "CUDA_UM_BAD_INPUT_CHILD";

#[test]
fn a_runtime_that_is_none() {
    if std::env::var_os(CHILD).is_some() {
        let device = CudaDevice::new(0).unwrap_err();
        let backend = CudaBackend::initialize_blocking(CudaBackendConfig::default()).unwrap_err();
        assert_eq!(device.to_string(), backend.to_string());
        println!("said: {backend}");
        return;
    }
    for (name, value, said) in [
        (
            "CUDA_UM_RUNTIME",
            "gpu",
            "CUDA_UM_RUNTIME=gpu: expected cuda, sim or auto",
        ),
        (
            "CUDA_UM_RUNTIME",
            "SIM",
            "CUDA_UM_RUNTIME=SIM: expected cuda, sim or auto",
        ),
        (
            "CUDA_UM_SIM_GPU",
            "gpu",
            "CUDA_UM_SIM_GPU=gpu: expected h200",
        ),
    ] {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([
            "--exact",
            "environment::a_runtime_that_is_none",
            "--nocapture",
        ]);
        let command = command.env("CUDA_UM_RUNTIME", "sim").env(name, value);
        let output = command.env(CHILD, "1").output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{text}");
        assert!(text.contains(said), "{text}");
    }
}
