//! The end of a process that uses shared storage.

use cuda_um_testkit::{again, is_child};
use std::sync::OnceLock;
use std::sync::mpsc::channel;
use um_backend::{
    BufferKind, CudaBackend, CudaBackendConfig, CudaError, DType, RuntimeChoice, SharedBuffer,
};

static STORAGE: OnceLock<SharedBuffer> = OnceLock::new();

/// Registered before the library uses CUDA, so it runs after the threads have stopped.
extern "C" fn at_end() {
    let ends = |result: Result<(), CudaError>| {
        let error = result.expect_err("a stopped thread has the storage");
        assert!(error.to_string().contains("the process ends"), "{error}");
    };
    let storage = STORAGE.get().unwrap();
    ends(storage.read().map(drop));
    ends(pollster::block_on(storage.write_async()).map(drop));
    // SAFETY: ends the process at once.
    #[allow(unsafe_code, reason = "_exit is a C function")]
    unsafe {
        libc::_exit(42)
    }
}

#[test]
fn an_exit_handler_does_not_wait_for_storage_of_a_stopped_thread() {
    if !is_child() {
        let test = "exit::an_exit_handler_does_not_wait_for_storage_of_a_stopped_thread";
        assert_eq!(again(test).status().unwrap().code(), Some(42));
        return;
    }
    // SAFETY: the handler exists until the process ends, and a panic in it aborts.
    #[allow(unsafe_code, reason = "atexit is a C function")]
    let code = unsafe { libc::atexit(at_end) };
    assert_eq!(code, 0);
    let config = CudaBackendConfig::default().runtime(RuntimeChoice::Sim);
    let backend = CudaBackend::initialize_blocking(config).unwrap();
    let bytes = backend.create_erased(BufferKind::Unified, DType::U8, 8);
    let storage = STORAGE.get_or_init(|| SharedBuffer::new(bytes.unwrap()));
    let (taken, is_taken) = channel();
    std::thread::spawn(move || {
        let _guard = storage.write().unwrap();
        taken.send(()).unwrap();
        loop {
            // Stops here when the process ends.
            let _ = backend.synchronize();
        }
    });
    is_taken.recv().unwrap();
    std::process::exit(1);
}
