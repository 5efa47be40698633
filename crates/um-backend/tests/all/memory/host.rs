//! Buffers of the CPU that a backend with pageable memory access makes: kernels use them in place.

use um_backend::sim::{Fail, Gpu, Sim};
use um_backend::{BufferKind, CudaBackend, CudaBackendConfig, DType, HostBuffer};

use crate::support::kernel::Double;

const LEN: usize = 1 << 20;

fn on_each(test: impl Fn(&Sim, &CudaBackend, &Double)) {
    for gpu in [Gpu::Gh200, Gpu::Hmm, Gpu::Gb10] {
        let sim = Sim::builder().gpu(gpu).build().unwrap();
        let config = CudaBackendConfig::default().simulator(sim.clone());
        let backend = CudaBackend::initialize_blocking(config).unwrap();
        test(&sim, &backend, &Double::load(backend.device()));
        let misuse = sim.misuse();
        assert!(misuse.is_empty(), "{gpu:?}: {misuse:?}");
    }
}

#[test]
fn slices_wait_for_kernels_and_the_vector_comes_back() {
    on_each(|sim, backend, double| {
        let vector = vec![1.0f32; LEN];
        let at = vector.as_ptr();
        let mut host = backend.create_from_vec(BufferKind::Host, vector).unwrap();
        let held = sim.pause();
        double.launch(backend.device(), &mut *host).unwrap();
        let host = host.as_any_mut().downcast_mut::<HostBuffer<f32>>().unwrap();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| host.as_slice() == vec![2.0; LEN]);
            drop(held);
            assert!(waits.join().unwrap());
        });
        double.launch(backend.device(), host).unwrap();
        host.as_slice_mut()[7] = 5.0;
        let mut clone = host.clone();
        double.launch(backend.device(), &mut clone).unwrap();
        assert_eq!(
            (clone.as_slice()[0], clone.as_slice()[7], host.as_slice()[7]),
            (8.0, 10.0, 5.0)
        );
        assert!(*host != clone && *host == host.clone());
        double.launch(backend.device(), host).unwrap();
        let vector = std::mem::replace(host, clone).into_vec(); // waits for the kernel
        assert_eq!((vector.as_ptr(), vector[0], vector[7]), (at, 8.0, 10.0));
    });
}

#[test]
fn a_failed_kernel_loses_contents_and_no_memory() {
    on_each(|sim, backend, double| {
        let mut host = backend.create_host::<f32>(8).unwrap();
        double.launch(backend.device(), &mut host).unwrap();
        sim.fail(Fail::call("cudaStreamSynchronize"));
        assert_eq!(host.as_slice().len(), 8);
        sim.clear_failures();
        assert_eq!(host.into_vec().len(), 8);
    });
}

#[test]
fn dropped_buffers_of_any_type_are_in_use_until_their_work_ends() {
    on_each(|sim, backend, double| {
        let mut host = backend
            .create_erased(BufferKind::Host, DType::F32, LEN)
            .unwrap();
        let other = host.clone_empty(3).unwrap();
        for buffer in [&host, &other] {
            let view = buffer.bytes().memory().device_view().unwrap();
            assert!(view.as_ptr().addr().is_multiple_of(64));
        }
        let held = sim.pause();
        double
            .launch_on(backend.device(), LEN, (&mut host, LEN as u32))
            .unwrap();
        drop(host);
        drop(held);
        backend.synchronize().unwrap();
    });
}

#[test]
fn a_unified_vector_is_the_caller_s() {
    on_each(|sim, backend, double| {
        let vector = vec![1.0f32; LEN];
        let at = vector.as_ptr();
        sim.clear_trace();
        let mut unified = backend
            .create_from_vec(BufferKind::Unified, vector)
            .unwrap();
        assert!(sim.trace().is_empty(), "{:?}", sim.trace());
        double.launch(backend.device(), &mut *unified).unwrap();
        assert_eq!(
            (unified.host().unwrap().as_ptr(), unified.host().unwrap()[7]),
            (at, 2.0)
        );
    });
}
