//! The cost model of a backend's device.

use std::sync::Arc;
use um_backend::cuda_um::{Error, cost::CostModel};
use um_backend::sim::Sim;
use um_backend::{CudaBackend, CudaBackendConfig, CudaError, config::CostModelSource};

fn model_of(source: impl Into<CostModelSource>) -> Result<Arc<CostModel>, CudaError> {
    let config = CudaBackendConfig::default().simulator(Sim::builder().build().unwrap());
    let backend = CudaBackend::initialize_blocking(config.cost_model(source))?;
    Ok(backend.device().cost_model())
}

#[test]
fn the_device_has_a_given_model() {
    let built_in = model_of(CostModelSource::BuiltIn).unwrap();
    assert!(built_in.source.contains("built in"), "{}", built_in.source);
    let mut model = CostModel::h200();
    model.source = "given by a test".to_owned();
    assert_eq!(*model_of(model.clone()).unwrap(), model);
    model.remote_rate = 0.0;
    let error = model_of(model).unwrap_err();
    let is_it = matches!(error, Error::InvalidArgument { .. });
    assert!(is_it, "{error:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn this_machines_model_is_measured_and_kept() {
    use cuda_um_testkit::{again, is_child};
    if is_child() {
        let first = model_of(CostModelSource::ThisMachine).unwrap();
        let source = &first.source;
        assert!(source.contains("um-kernels calibration 2 on"), "{source}");
        // The second backend reads the file.
        let second = model_of(CostModelSource::ThisMachine).unwrap();
        assert_eq!(second, first);
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut child = again("memory::cost_model::this_machines_model_is_measured_and_kept");
    let child = child.env_remove("CUDA_UM_COST_MODEL");
    let output = child.env("XDG_CACHE_HOME", folder.path()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}"
    );
    let files = std::fs::read_dir(folder.path().join("cuda-um/cost")).unwrap();
    assert_eq!(files.count(), 2, "a model and a lock");
}
