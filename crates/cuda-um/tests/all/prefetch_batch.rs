//! Many prefetches in few calls.

use cuda_um::managed::PrefetchBatch;
use cuda_um::{Location, MemoryKind, Pool, PoolOptions, UnifiedBuffer};
use cuda_um_sim::{CudaVersion, Fail, Gpu, Sim};
use cuda_um_sys::cudaError;
use cuda_um_testkit::{Add, calls, simulated, simulated_with};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

fn prefetches(sim: &Sim) -> usize {
    let names = [
        "cudaMemPrefetchAsync",
        "cudaMemPrefetchAsync_v2",
        "cudaMemPrefetchBatchAsync",
    ];
    names.iter().map(|name| calls(sim, name)).sum()
}

#[test]
fn sixty_four_buffers_of_a_pool_take_one_call() {
    let (sim, device, stream) = simulated(Gpu::H200);
    let pool = Pool::new(&device, MemoryKind::Managed, PoolOptions::default()).unwrap();
    let mut buffers: Vec<_> = (0..64u32)
        .map(|index| UnifiedBuffer::from_slice_in(&pool, &[index; 16 * KIB]).unwrap())
        .collect();
    for (index, buffer) in buffers.iter_mut().enumerate() {
        buffer.host_mut().unwrap()[0] += index as u32;
    }
    sim.clear_trace();
    let batch = PrefetchBatch::from_iter(buffers.iter().rev());
    let prefetched = batch.prefetch_on(&device, &stream).unwrap();
    assert_eq!((prefetched.calls, prefetches(&sim)), (1, 1));
    stream.synchronize().unwrap();
    sim.reset_counters();
    let add = Add::load(&device);
    for buffer in &mut buffers {
        add.run(&stream, buffer, 16 * KIB, 1);
    }
    stream.synchronize().unwrap();
    assert_eq!(sim.counters().gpu_faults, 0, "all of it was there");
    for (index, buffer) in buffers.iter().enumerate() {
        assert_eq!(buffer.host().unwrap()[0], 2 * index as u32 + 1);
    }
}

#[test]
fn what_does_not_touch_goes_apart() {
    for (cuda, expected) in [
        (CudaVersion::V11_8, 3),
        (CudaVersion::V12_9, 3),
        (CudaVersion::V13_0, 1),
    ] {
        let (sim, device, stream) = simulated_with(|builder| builder.cuda(cuda));
        let pool = Pool::new(&device, MemoryKind::Managed, PoolOptions::default()).unwrap();
        let pooled: Vec<_> = (0..4)
            .map(|_| UnifiedBuffer::<u8>::zeroed_in(&pool, 64 * KIB).unwrap())
            .collect();
        let own = UnifiedBuffer::<f64>::zeroed(&device, 1000).unwrap();
        sim.clear_trace();
        let mut batch = PrefetchBatch::new();
        batch.add(&pooled[0]).add(&own);
        // Overlapping and adjacent ranges, and one after a gap.
        batch.add(pooled[0].view(1000..).unwrap());
        batch.add(pooled[1].view(..5000).unwrap());
        batch.add(pooled[2].view(8 * KIB..8 * KIB).unwrap());
        batch.add(pooled[3].view(100..200).unwrap());
        let prefetched = batch.prefetch_on(Location::Host, &stream).unwrap();
        assert_eq!((prefetched.calls, prefetches(&sim)), (expected, expected));
    }
}

#[test]
fn a_batch_that_failed_is_not_recorded_as_done() {
    let (sim, device, stream) = simulated_with(|builder| builder.cuda(CudaVersion::V13_0));
    let [buffer, other] = [5000, MIB].map(|len| UnifiedBuffer::<u8>::zeroed(&device, len).unwrap());
    let batch = PrefetchBatch::from_iter([&buffer, &other]);
    batch.prefetch_on(Location::Host, &stream).unwrap();
    sim.fail(Fail::call("cudaMemPrefetchBatchAsync").with(cudaError::cudaErrorInvalidValue));
    let error = batch.prefetch_on(&device, &stream).unwrap_err().to_string();
    let text = "cudaMemPrefetchBatchAsync: 1053576 bytes in 2 ranges to device 0: ";
    assert!(error.starts_with(text), "{error}");
    assert_eq!(batch.prefetch_on(&device, &stream).unwrap().calls, 1);
    let none = PrefetchBatch::new().prefetch_on(&device, &stream).unwrap();
    assert_eq!(none.calls, 0, "nothing to do");

    let (_old, old, stream) = simulated(Gpu::NoConcurrentAccess);
    let buffer = UnifiedBuffer::<u8>::zeroed(&old, 5000).unwrap();
    let batch = PrefetchBatch::from_iter([&buffer]);
    let prefetched = batch.prefetch_on(Location::Host, &stream).unwrap();
    assert!(prefetched.calls == 0 && !prefetched.outcome.is_applied());
}
