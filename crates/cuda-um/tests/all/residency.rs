//! The location of pages: prefetches that would move nothing are elided, and no others.

mod beside;
mod driver;

use cuda_um::{
    Advice, Device, Location, MemoryKind, Oversubscription, Pool, PoolOptions, Stream,
    UnifiedBuffer, UnifiedOptions, constant, managed::PrefetchBatch,
};
use cuda_um_sim::{CudaVersion, Gpu};
use cuda_um_testkit::call::Calls;
use cuda_um_testkit::{Add, Checked, calls, simulated, simulated_with};

const MIB: usize = 1 << 20;

#[test]
fn a_prefetch_of_what_is_there_calls_nobody() {
    let (sim, device, stream) = simulated(Gpu::H200);
    let mut buffer = UnifiedBuffer::<u8>::from_slice(&device, &vec![1; 6 * MIB]).unwrap();
    sim.clear_trace();
    buffer.prefetch_on(&device, &stream).unwrap();
    buffer.fill_on(2, &stream).unwrap();
    let part = buffer.view(7..MIB).unwrap();
    part.prefetch_on(&device, &stream).unwrap();
    let batch = PrefetchBatch::from_iter([&buffer]);
    assert_eq!(batch.prefetch_on(&device, &stream).unwrap().calls, 0);
    assert_eq!(calls(&sim, "cudaMemPrefetchAsync"), 0);
    buffer.host_mut().unwrap()[0] = 3;
    buffer.prefetch_on(&device, &stream).unwrap();
    buffer.prefetch_on(Location::Host, &stream).unwrap();
    buffer.prefetch_on(Location::Host, &stream).unwrap();
    assert_eq!(calls(&sim, "cudaMemPrefetchAsync"), 2);
    assert_eq!(buffer.host().unwrap()[..2], [3, 2]);
    let empty = UnifiedBuffer::<u8>::zeroed(&device, 0).unwrap();
    assert_eq!(empty.residency().unwrap(), None);
}

/// Buffers that share a block of 2 MiB may move each other's pages, so their prefetches are never elided.
#[test]
fn a_prefetch_of_a_shared_block_is_enqueued() {
    // From CUDA 13.4 on the driver tells the location.
    let (sim, device, stream) = simulated_with(|builder| builder.cuda(CudaVersion::V13_0));
    let pool = Pool::new(&device, MemoryKind::Managed, PoolOptions::default()).unwrap();
    let small = UnifiedBuffer::from_slice_in(&pool, &[1u8; 1000]).unwrap();
    let large = UnifiedBuffer::from_slice_in(&pool, &vec![1u8; 3 * MIB]).unwrap();
    sim.clear_trace();
    small.prefetch_on(&device, &stream).unwrap();
    assert_eq!(calls(&sim, "cudaMemPrefetchAsync"), 1);
    large.prefetch_on(&device, &stream).unwrap();
    // The pool gives 3 MiB whole blocks.
    assert_eq!(calls(&sim, "cudaMemPrefetchAsync"), 1);
    assert_eq!(small.residency().unwrap(), None);
}

#[test]
fn reading_read_mostly_memory_leaves_it_where_it_is() {
    let (sim, device, stream) = simulated(Gpu::H200);
    let mut buffer = UnifiedBuffer::<u32>::zeroed(&device, MIB).unwrap();
    buffer.advise(Advice::SetReadMostly).unwrap();
    buffer.prefetch_on(&device, &stream).unwrap();
    let prefetched = calls(&sim, "cudaMemPrefetchAsync");
    assert_eq!(buffer.host().unwrap()[7], 0);
    buffer.prefetch_on(&device, &stream).unwrap();
    assert_eq!(calls(&sim, "cudaMemPrefetchAsync"), prefetched);
    buffer.host_mut().unwrap()[7] = 1;
    buffer.prefetch_on(&device, &stream).unwrap();
    assert_eq!(calls(&sim, "cudaMemPrefetchAsync"), prefetched + 1);
}

/// A device of 64 MiB, and two buffers of 40 MiB that were prefetched to it: a part of the first one was evicted.
fn evicted() -> (Checked, Stream, [UnifiedBuffer<u32>; 2]) {
    let (sim, device, stream) = simulated_with(|builder| builder.total_memory_bytes(64 << 20));
    let options = UnifiedOptions::default().oversubscription(Oversubscription::Allowed);
    let buffers = [(); 2].map(|()| {
        let buffer = UnifiedBuffer::zeroed_with(&device, 10 * MIB, options).unwrap();
        buffer.prefetch_on(&device, &stream).unwrap();
        buffer
    });
    stream.synchronize().unwrap();
    (sim, stream, buffers)
}

/// A prefetch moves something.
fn is_made<T: 'static>(sim: &Checked, buffer: &UnifiedBuffer<T>, to: &Device, stream: &Stream) {
    sim.reset_counters();
    buffer.prefetch_on(to, stream).unwrap();
    stream.synchronize().unwrap();
    let moved = sim.counters().bytes_to_device;
    assert!(moved > 0, "the prefetch was left out");
}

#[test]
fn a_prefetch_of_evicted_memory_is_made() {
    let (sim, stream, [first, _second]) = evicted();
    is_made(&sim, &first, &stream.device(), &stream);
}

/// From a device on which it was not allocated.
#[test]
fn a_prefetch_of_memory_that_another_device_evicted_is_made() {
    let (sim, device, stream) =
        simulated_with(|builder| builder.devices(2).total_memory_bytes(64 << 20));
    let there = device.runtime().device(1).unwrap();
    let first = UnifiedBuffer::<u8>::zeroed(&device, 40 * MIB).unwrap();
    first.prefetch_on(&there, &stream).unwrap();
    stream.synchronize().unwrap();
    let options = UnifiedOptions::default().oversubscription(Oversubscription::Allowed);
    let _second = UnifiedBuffer::<u8>::zeroed_with(&there, 40 * MIB, options).unwrap();
    there.synchronize().unwrap();
    is_made(&sim, &first, &there, &stream);
}

#[test]
fn a_launch_of_a_graph_brings_evicted_memory() {
    let (sim, stream, [mut first, second]) = evicted();
    let add = Add::load(&stream.device());
    let len = first.len();
    let graph = stream.capture(|_| {
        let arguments = (&mut first, constant(len as u32), constant(1u32));
        add.launch(&stream, len, arguments)
    });
    let mut exec = graph.unwrap().instantiate().unwrap();
    second.prefetch_on(&stream.device(), &stream).unwrap();
    stream.synchronize().unwrap();
    sim.reset_counters();
    exec.launch(&stream, (&mut first,)).unwrap();
    stream.synchronize().unwrap();
    let faults = sim.counters().gpu_faults;
    assert_eq!(faults, 0, "the memory was not brought before the launch");
}

/// By memory of another library, which the program allowed nothing.
#[test]
fn a_prefetch_of_memory_that_another_library_evicted_is_made() {
    let (sim, device, stream) = simulated_with(|builder| {
        builder
            .total_memory_bytes(64 << 20)
            .cuda(CudaVersion::V13_0)
    });
    let first = UnifiedBuffer::<u8>::zeroed(&device, 40 * MIB).unwrap();
    device.synchronize().unwrap();
    let theirs = sim.table().malloc_managed(40 * MIB, 1).unwrap();
    sim.table().memset(theirs, 1, 40 * MIB).unwrap();
    device.synchronize().unwrap();
    is_made(&sim, &first, &device, &stream);
    sim.table().free(theirs).unwrap();
}
