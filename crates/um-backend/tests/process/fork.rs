//! Children made by `fork`: an inherited backend refuses work, opening another one fails, and no call waits.

use cuda_um_testkit::child::{Over, in_child};
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use um_backend::allocator::Allocator;
use um_backend::cuda_um::{MemoryKind, Pool, PoolOptions};
use um_backend::{
    BufferKind, CudaBackend, CudaBackendConfig, CudaDevice, CudaError, DType, RuntimeChoice,
    SharedBuffer,
};

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
    let runtime = backend.device().runtime().clone();
    let given = CudaBackendConfig::default().runtime(RuntimeChoice::Given(runtime));
    first_not_refused([
        CudaBackend::initialize_blocking(simulated()).map(drop),
        pollster::block_on(CudaBackend::initialize(simulated())).map(drop),
        CudaBackend::initialize_blocking(given.clone()).map(drop),
        pollster::block_on(CudaBackend::initialize(given)).map(drop),
        CudaDevice::new(0).map(drop),
        backend.synchronize(),
        backend.allocate_unified::<f32>(10).map(drop),
        backend
            .create_buffer::<f32>(10, um_backend::DType::F32)
            .map(drop),
        backend.create::<f32>(BufferKind::Pinned, 10).map(drop),
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
    let (_backend, buffer) = inherited.unwrap();
    assert_eq!(buffer.as_slice().unwrap()[99], 2.0);
}

/// Guards of threads and tasks, a future that waits, and the lock itself: each may be of a thread that the child does not have.
#[test]
fn a_child_is_refused_shared_storage() {
    let backend = CudaBackend::initialize_blocking(simulated()).unwrap();
    let [held, free, own] = [(); 3].map(|()| {
        let buffer = backend.create_erased(BufferKind::Unified, DType::U8, 4);
        SharedBuffer::new(buffer.unwrap())
    });
    let (has_guard, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let _over = Over(&is_over);
        scope.spawn(|| {
            let _guard = held.write().unwrap();
            has_guard.store(true, Ordering::Relaxed);
            while !is_over.load(Ordering::Relaxed) {
                // Often under the lock at the fork.
                free.read().unwrap();
            }
        });
        while !has_guard.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let mut waits = Some(Box::pin(held.write_async()));
        assert!(
            waits
                .as_mut()
                .unwrap()
                .as_mut()
                .poll(&mut context)
                .is_pending()
        );
        let mut guards = Some((
            own.read().unwrap(),
            pollster::block_on(own.read_async()).unwrap(),
        ));
        for round in 0..10 {
            let code = in_child(|| {
                let all_refused = |storage: &SharedBuffer| {
                    first_not_refused([
                        storage.read().map(drop),
                        storage.write().map(drop),
                        storage.try_read().map(drop),
                        storage.try_write().map(drop),
                        storage.host::<u8>().map(drop),
                        storage.host_mut::<u8>().map(drop),
                        storage.clone().make_unique(),
                        pollster::block_on(storage.read_async()).map(drop),
                        pollster::block_on(storage.write_async()).map(drop),
                    ])
                };
                let mut waits = waits.take().unwrap();
                let polled = match waits.as_mut().poll(&mut context) {
                    std::task::Poll::Ready(result) => first_not_refused([result.map(drop)]),
                    std::task::Poll::Pending => 1,
                };
                drop((waits, guards.take()));
                all_refused(&held) + 100 * all_refused(&free) + 10000 * polled
            });
            assert_eq!(code, 0, "round {round}");
        }
        drop((waits, guards));
    });
    held.write().unwrap();
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
                }
            });
        }
        let _over = Over(&is_over);
        for round in 0..30 {
            assert_eq!(in_child(|| all_refused(&backend)), 0, "round {round}");
        }
    });
}

/// Nothing was opened, so the child inherits nothing.
#[test]
fn a_child_opens_a_runtime_after_its_parent_failed_to() {
    if !cuda_um_testkit::is_child() {
        // In a process of its own, because other tests open runtimes.
        let name = "fork::a_child_opens_a_runtime_after_its_parent_failed_to";
        let status = cuda_um_testkit::again(name).status().unwrap();
        return assert!(status.success(), "{status}");
    }
    let of_cuda = CudaBackendConfig::default().runtime(RuntimeChoice::Cuda);
    if CudaBackend::initialize_blocking(of_cuda).is_ok() {
        eprintln!("NOT RUN: there is a GPU");
        return;
    }
    let code = in_child(|| {
        let opened = pollster::block_on(CudaBackend::initialize(simulated()));
        i32::from(opened.is_ok())
    });
    assert_eq!(code, 1);
}

/// Memory of a framework, also while threads of the parent use the allocator.
#[test]
#[allow(
    unsafe_code,
    reason = "passes streams and addresses as a framework does"
)]
fn a_child_is_refused_an_allocator() {
    let backend = CudaBackend::initialize_blocking(simulated()).unwrap();
    let (device, is_over) = (backend.device(), AtomicBool::new(false));
    let pool = Pool::new(device, MemoryKind::Device, PoolOptions::default()).unwrap();
    let (allocator, stream) = (
        Allocator::new(pool).unwrap(),
        device.create_stream().unwrap(),
    );
    // SAFETY: the stream lives, and nothing uses the memory.
    let allocate = || unsafe { allocator.allocate(1000, stream.as_raw()) };
    // SAFETY: as above.
    let free = |address| unsafe { allocator.free(address, stream.as_raw()) };
    let address = allocate().unwrap();
    std::thread::scope(|scope| {
        let _over = Over(&is_over);
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                free(allocate().unwrap()).unwrap();
            }
        });
        for round in 0..10 {
            let code = in_child(|| {
                let freed = free(address);
                let is_first = |error: &CudaError| error.to_string().contains("Allocator::free");
                assert!(freed.as_ref().is_err_and(is_first), "{freed:?}");
                first_not_refused([freed, allocate().map(drop)])
            });
            assert_eq!(code, 0, "round {round}");
        }
    });
    free(address).unwrap();
}
