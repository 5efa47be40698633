//! Hot calls allocate no memory and format no text: an allocator counts. The simulator's own allocations are left out.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use crate::support::{self, kernel::Double};
use cuda_um::{
    Advice, DeviceBuffer, Location, MemoryKind, PinnedBuffer, Pool, PoolOptions, UnifiedBuffer,
};
use um_backend::sim::{Gpu, Sim, is_in_call};
use um_backend::{BufferKind, CudaBackend, DType};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
/// Each operation is repeated as often before allocations are counted, and while they are.
const ROUNDS: usize = 50;

struct Counting;

thread_local!(static ALLOCATIONS: Cell<usize> = const { Cell::new(0) });

fn count() {
    if !is_in_call() {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
    }
}

#[allow(unsafe_code, reason = "an allocator that counts")]
// SAFETY: it calls the system's allocator; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: required of the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the memory comes from the system's allocator.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Prefetches that reached CUDA.
fn prefetches(sim: &Sim) -> usize {
    let calls = sim.trace();
    let is_prefetch = |name: &str| name.starts_with("cudaMemPrefetch");
    calls.iter().filter(|call| is_prefetch(call.name)).count()
}

/// Allocations of this thread in `ROUNDS` repetitions of an operation, after as many that do not count.
fn allocations(mut operation: impl FnMut(usize)) -> usize {
    (0..ROUNDS).for_each(&mut operation);
    let before = ALLOCATIONS.get();
    (0..ROUNDS).for_each(&mut operation);
    ALLOCATIONS.get() - before
}

/// The name of each operation, and its allocations.
fn measure(backend: &CudaBackend, sim: &Sim) -> Vec<(&'static str, usize)> {
    let device = backend.device();
    let (inner, stream) = (device, device.stream());
    let gpu = Location::from(inner);
    let double = Double::load(device);
    let mut unified = backend.allocate_unified::<f32>(4 * MIB / 4).unwrap();
    let mut on_device = DeviceBuffer::<f32>::zeroed(inner, KIB).unwrap();
    let mut behind_dyn = backend.create::<f32>(BufferKind::Cuda, KIB).unwrap();
    let mut erased = backend
        .create_erased(BufferKind::Cuda, DType::F32, KIB)
        .unwrap();
    let (mut host, source) = (vec![0.0f32; KIB], vec![1.0f32; KIB]);
    let options = PoolOptions::default();
    let unified_pool = Pool::new(inner, MemoryKind::Managed, options).unwrap();
    let device_pool = Pool::new(inner, MemoryKind::Device, options).unwrap();
    let pinned_pool = Pool::new(inner, MemoryKind::Pinned, options).unwrap();
    vec![
        (
            "launch",
            allocations(|_| {
                double
                    .launch_on(device, KIB, (&mut on_device, KIB as u32))
                    .unwrap();
            }),
        ),
        ("work on four buffers", {
            let mut others = [(); 3].map(|()| DeviceBuffer::<f32>::zeroed(inner, KIB).unwrap());
            allocations(|_| {
                let [a, b, c] = &mut others;
                #[allow(unsafe_code, reason = "work of another library")]
                // SAFETY: the closure enqueues nothing.
                let done = unsafe { stream.enqueue_foreign((a, b, c, &on_device), |_| ()) };
                done.unwrap();
            })
        }),
        (
            "launch with a `dyn Buffer`",
            allocations(|_| double.launch(device, &mut *behind_dyn).unwrap()),
        ),
        (
            "copy of 4 KiB to an erased buffer",
            allocations(|_| {
                erased
                    .bytes_mut()
                    .copy_from_host(bytemuck::cast_slice(&source))
                    .unwrap();
            }),
        ),
        (
            "copy of 4 KiB to device memory",
            allocations(|_| on_device.copy_from_host(&source).unwrap()),
        ),
        (
            "copy of 4 KiB from device memory",
            allocations(|_| on_device.copy_to_host(&mut host).unwrap()),
        ),
        (
            "copy of 4 KiB to managed memory",
            allocations(|_| unified.copy_from_host_at(0, &source).unwrap()),
        ),
        ("prefetch that moves", {
            let before = prefetches(sim);
            let count = allocations(|round| {
                let to = [Location::Host, gpu][round % 2];
                assert!(unified.prefetch_on(to, stream).unwrap().is_applied());
            });
            assert_eq!(prefetches(sim) - before, 2 * ROUNDS);
            count
        }),
        ("elided prefetch", {
            let before = prefetches(sim);
            let count = allocations(|_| {
                assert!(unified.prefetch_on(gpu, stream).unwrap().is_applied());
            });
            assert_eq!(prefetches(sim), before);
            count
        }),
        (
            "advice",
            allocations(|round| {
                let advice = [Advice::SetReadMostly, Advice::UnsetReadMostly][round % 2];
                assert!(unified.advise(advice).unwrap().is_applied());
            }),
        ),
        ("host guard", allocations(|_| drop(unified.host().unwrap()))),
        (
            "host guard for writing, after work on a stream",
            allocations(|_| {
                unified.fill(1.0).unwrap();
                drop(unified.host_mut().unwrap());
            }),
        ),
        (
            "managed memory of a pool",
            allocations(|_| drop(UnifiedBuffer::<f32>::uninit_in(&unified_pool, KIB).unwrap())),
        ),
        (
            "device memory of a pool",
            allocations(|_| drop(DeviceBuffer::<f32>::uninit_in(&device_pool, KIB).unwrap())),
        ),
        (
            "pinned memory of a pool",
            allocations(|_| drop(PinnedBuffer::<f32>::zeroed_in(&pinned_pool, KIB).unwrap())),
        ),
    ]
}

#[test]
fn hot_calls_allocate_nothing() {
    support::on_preset(
        Gpu::H200,
        |builder| builder,
        |machine| {
            let counted = measure(&machine.backend(), machine.sim.as_ref().unwrap());
            let allocating: Vec<_> = counted.iter().filter(|(_, count)| *count > 0).collect();
            assert!(
                allocating.is_empty(),
                "in {ROUNDS} rounds each: {allocating:#?}"
            );
        },
    );
}

/// The allocator counts at all.
#[test]
fn an_allocation_is_counted() {
    assert_eq!(allocations(|round| drop(Box::new(round))), ROUNDS);
}
