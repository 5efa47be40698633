//! The cost model of a backend's device.

use um_backend::cuda_um::cost::CostModel;
use um_backend::sim::Sim;
use um_backend::{
    CudaBackend, CudaBackendConfig, CudaError,
    config::CostModelSource,
    cuda_um::{AccessPattern, Error, Placement, resource::Placed},
};

fn small_result(source: impl Into<CostModelSource>) -> Result<Placed, CudaError> {
    let config = CudaBackendConfig::default().simulator(Sim::builder().build().unwrap());
    let backend = CudaBackend::initialize_blocking(config.cost_model(source))?;
    let buffer = backend.allocate_unified_for::<f32>(1000, AccessPattern::ReadBack)?;
    Ok(buffer.placement())
}

#[test]
fn a_given_model_selects_the_memory() {
    let placed = small_result(CostModelSource::BuiltIn).unwrap();
    assert_eq!(placed.placement, Placement::Mapped);
    assert!(placed.reason.contains("cost model: built in"), "{placed}");
    let mut model = CostModel::h200();
    model.source = "given by a test".to_owned();
    model.remote_rate = 1e6;
    let placed = small_result(model.clone()).unwrap();
    assert_eq!(placed.placement, Placement::Managed);
    assert!(placed.reason.contains("given by a test"), "{placed}");
    model.remote_rate = 0.0;
    let error = small_result(model).unwrap_err();
    let is_it = matches!(error, Error::InvalidArgument { .. });
    assert!(is_it, "{error:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn this_machines_model_is_measured_and_kept() {
    use cuda_um_testkit::{again, is_child};
    if is_child() {
        let first = small_result(CostModelSource::ThisMachine).unwrap();
        assert!(
            first.reason.contains("um-kernels calibration 2 on"),
            "{first}"
        );
        // The same prices: the second backend reads the file.
        let second = small_result(CostModelSource::ThisMachine).unwrap();
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
