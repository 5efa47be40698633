//! Buffers of the CPU that a backend with pageable memory access makes: kernels use them in place.

use um_backend::sim::{Fail, Gpu, Sim};
use um_backend::{Buffer, BufferKind, CudaBackend, HostBuffer};

use crate::support::{Machine, kernel::Double};

const LEN: usize = 1 << 20;

fn on_each(test: impl Fn(&Sim, &CudaBackend, &Double)) {
    for gpu in [Gpu::Gh200, Gpu::Hmm, Gpu::Gb10] {
        let machine = Machine::simulated(gpu, |builder| builder);
        let backend = machine.backend();
        test(machine.sim(), &backend, &Double::load(backend.device()));
    }
}

fn host(buffer: &mut dyn Buffer<f32>) -> &mut HostBuffer<f32> {
    buffer.as_any_mut().downcast_mut().unwrap()
}

fn taken(buffer: &mut dyn Buffer<f32>) -> HostBuffer<f32> {
    std::mem::replace(host(buffer), HostBuffer::zeroed(0).unwrap())
}

#[test]
fn slices_and_clones_wait_for_kernels() {
    on_each(|sim, backend, double| {
        let mut buffer = backend.create::<f32>(BufferKind::Host, LEN).unwrap();
        buffer.fill(1.0).unwrap();
        let held = sim.pause();
        double.launch(backend.device(), &mut *buffer).unwrap();
        let host = host(&mut *buffer);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| host.as_slice() == vec![2.0; LEN]);
            drop(held);
            assert!(waits.join().unwrap());
        });
        double.launch(backend.device(), host).unwrap();
        host.as_slice_mut()[7] = 5.0;
        let mut clone = host.try_clone().unwrap();
        double.launch(backend.device(), &mut *clone).unwrap();
        let found = clone.host().unwrap();
        assert_eq!((found[0], found[7], host.as_slice()[7]), (8.0, 10.0, 5.0));
        drop(found);
        double.launch(backend.device(), &mut *clone).unwrap();
        assert_eq!(taken(&mut *clone).into_vec()[..2], [16.0; 2], "it waits");
    });
}

#[test]
fn a_failed_kernel_loses_contents_and_no_memory() {
    on_each(|sim, backend, double| {
        let mut buffer = backend.create::<f32>(BufferKind::Host, 8).unwrap();
        double.launch(backend.device(), &mut *buffer).unwrap();
        sim.fail(Fail::call("cudaStreamSynchronize"));
        assert_eq!(host(&mut *buffer).as_slice().len(), 8);
        sim.clear_failures();
        assert_eq!(taken(&mut *buffer).into_vec().len(), 8);
    });
}
