//! Invalid values of `CUDA_UM_RUNTIME`, in child processes that run this test again.

use cuda_um_testkit::{again, is_child};
use um_backend::{CudaBackend, CudaBackendConfig, CudaDevice};

#[test]
fn a_runtime_that_is_none() {
    if is_child() {
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
        let mut command = again("environment::a_runtime_that_is_none");
        let command = command.env("CUDA_UM_RUNTIME", "sim").env(name, value);
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{text}");
        assert!(text.contains(said), "{text}");
    }
}
