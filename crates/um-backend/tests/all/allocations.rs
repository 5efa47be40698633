//! Hot calls allocate no memory and format no text: an allocator counts. The simulator's own allocations are left out.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use crate::support::{Machine, kernel::Double};
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

/// Allocations of this thread in `ROUNDS` repetitions of an operation, after as many that do not count.
fn allocations(mut operation: impl FnMut(usize)) -> usize {
    (0..ROUNDS).for_each(&mut operation);
    let before = ALLOCATIONS.get();
    (0..ROUNDS).for_each(&mut operation);
    ALLOCATIONS.get() - before
}

/// `"operation" => |round| expression;`: the name of each operation, and its allocations.
macro_rules! measured {
    ($($name:literal => |$round:pat_param| $operation:expr;)*) => {
        vec![$(($name, allocations(|$round| _ = $operation)),)*]
    };
}

fn measure(backend: &CudaBackend, sim: &Sim) -> Vec<(&'static str, usize)> {
    let device = backend.device();
    let (stream, double) = (device.stream(), Double::load(device));
    let (gpu, ways) = (
        Location::from(device),
        [Advice::SetReadMostly, Advice::UnsetReadMostly],
    );
    let prefetches = || cuda_um_testkit::calls(sim, "cudaMemPrefetchAsync");
    let mut unified = backend.allocate_unified::<f32>(4 * MIB / 4).unwrap();
    let [mut on_device, mut a, mut b, mut c] =
        [(); 4].map(|()| DeviceBuffer::<f32>::zeroed(device, KIB).unwrap());
    let mut behind_dyn = backend.create::<f32>(BufferKind::Cuda, KIB).unwrap();
    let mut erased = backend
        .create_erased(BufferKind::Cuda, DType::F32, KIB)
        .unwrap();
    let (mut host, source) = (vec![0.0f32; KIB], vec![1.0f32; KIB]);
    let [managed, memory, pinned] = [MemoryKind::Managed, MemoryKind::Device, MemoryKind::Pinned]
        .map(|kind| Pool::new(device, kind, PoolOptions::default()).unwrap());
    let mut counted = measured! {
        "launch" => |_| double.launch_on(device, KIB, (&mut on_device, KIB as u32)).unwrap();
        "launch with a `dyn Buffer`" => |_| double.launch(device, &mut *behind_dyn).unwrap();
        "copy of 4 KiB to an erased buffer" => |_| erased.bytes_mut().copy_from_host(bytemuck::cast_slice(&source)).unwrap();
        "copy of 4 KiB to device memory" => |_| on_device.copy_from_host(&source).unwrap();
        "copy of 4 KiB from device memory" => |_| on_device.copy_to_host(&mut host).unwrap();
        "copy of 4 KiB to managed memory" => |_| unified.copy_from_host_at(0, &source).unwrap();
        "advice" => |round| assert!(unified.advise(ways[round % 2]).unwrap().is_applied());
        "host guard" => |_| unified.host().unwrap();
        "host guard for writing, after work on a stream" => |_| {
            unified.fill(1.0).unwrap();
            drop(unified.host_mut().unwrap());
        };
        "managed memory of a pool" => |_| UnifiedBuffer::<f32>::uninit_in(&managed, KIB).unwrap();
        "device memory of a pool" => |_| DeviceBuffer::<f32>::uninit_in(&memory, KIB).unwrap();
        "pinned memory of a pool" => |_| PinnedBuffer::<f32>::zeroed_in(&pinned, KIB).unwrap();
    };
    counted.push((
        "work on four buffers",
        allocations(|_| {
            let uses = (&mut a, &mut b, &mut c, &on_device);
            #[allow(unsafe_code, reason = "work of another library")]
            // SAFETY: the closure enqueues nothing.
            let done = unsafe { stream.enqueue_foreign(uses, |_| ()) };
            done.unwrap();
        }),
    ));
    for (name, places, expected) in [
        ("prefetch that moves", [Location::Host, gpu], 2 * ROUNDS),
        ("elided prefetch", [gpu; 2], 0),
    ] {
        let before = prefetches();
        let prefetch = |round| unified.prefetch_on(places[round % 2], stream).unwrap();
        counted.push((
            name,
            allocations(|round| assert!(prefetch(round).is_applied())),
        ));
        assert_eq!(prefetches() - before, expected, "{name}");
    }
    counted
}

#[test]
fn hot_calls_allocate_nothing() {
    let machine = Machine::simulated(Gpu::H200, |builder| builder);
    let counted = measure(&machine.backend(), machine.sim());
    let allocating: Vec<_> = counted.iter().filter(|(_, count)| *count > 0).collect();
    assert!(
        allocating.is_empty(),
        "in {ROUNDS} rounds each: {allocating:#?}"
    );
}

/// The allocator counts at all.
#[test]
fn an_allocation_is_counted() {
    assert_eq!(allocations(|round| drop(Box::new(round))), ROUNDS);
}
