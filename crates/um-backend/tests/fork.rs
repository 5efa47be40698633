//! Children made by `fork`: an inherited backend refuses work, opening another one fails, and no call waits.
#![cfg(unix)]

use cuda_um_testkit::child::in_child;
use std::sync::atomic::{AtomicBool, Ordering};
use um_backend::{Buffer, CudaBackend, CudaBackendConfig, CudaDevice, CudaError, RuntimeChoice};

/// 0 if every result is `Forked`, otherwise the number of the first other result.
fn first_not_refused(results: impl IntoIterator<Item = Result<(), CudaError>>) -> i32 {
    let is_refusal = |result: Result<(), CudaError>| match result {
        Err(error) => error.is_sticky() && error.to_string().contains("made by fork"),
        Ok(()) => false,
    };
    let found = results.into_iter().position(|result| !is_refusal(result));
    found.map_or(0, |at| at as i32 + 1)
}

fn simulated() -> CudaBackendConfig {
    CudaBackendConfig::default().runtime(RuntimeChoice::Sim)
}

/// Calls that a child may not make, and calls that return nothing in a child.
fn all_refused(backend: &CudaBackend) -> i32 {
    let runtime = backend.device().as_cuda_um().runtime().clone();
    let given = CudaBackendConfig::default().runtime(RuntimeChoice::Given(runtime));
    backend.stop_counting();
    assert!(backend.migration_counts().is_none());
    first_not_refused([
        CudaBackend::initialize_blocking(simulated()).map(drop),
        pollster::block_on(CudaBackend::initialize(simulated())).map(drop),
        CudaBackend::initialize_blocking(given.clone()).map(drop),
        pollster::block_on(CudaBackend::initialize(given)).map(drop),
        CudaDevice::new(0).map(drop),
        backend.device().sibling(0).map(drop),
        backend.start_counting(),
        backend.synchronize(),
        backend.allocate_unified::<f32>(10).map(drop),
        backend
            .create_buffer::<f32>(10, um_backend::DType::F32)
            .map(drop),
        backend.create_pinned::<f32>(10).map(drop),
    ])
}

#[test]
fn a_child_is_refused_backends_old_and_new() {
    // Starts the threads that open backends. A child does not have them.
    let backend = pollster::block_on(CudaBackend::initialize(simulated())).unwrap();
    let mut buffer = backend.allocate_unified::<f32>(100).unwrap();
    buffer.copy_from_host(&[2.0; 100]).unwrap();
    let mut inherited = Some((backend, buffer));
    let code = in_child(|| {
        let (backend, buffer) = inherited.take().unwrap();
        let code = all_refused(&backend);
        drop((buffer, backend));
        code
    });
    assert_eq!(code, 0, "the call with this number was not refused");
    let (backend, buffer) = inherited.unwrap();
    assert_eq!(buffer.as_slice().unwrap()[99], 2.0);
    assert!(backend.migration_counts().is_some());
}

#[test]
fn locks_of_other_threads_hold_no_child_up() {
    let backend = CudaBackend::initialize_blocking(simulated()).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    CudaBackend::initialize_blocking(simulated()).unwrap();
                    backend.migration_counts().unwrap();
                }
            });
        }
        let _over = Over(&is_over);
        for round in 0..30 {
            assert_eq!(in_child(|| all_refused(&backend)), 0, "round {round}");
        }
    });
}

/// Ends the other threads, also after a panic.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
