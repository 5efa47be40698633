//! The work of each row of `h200_times.csv`, as a program does it; each gives its time on the virtual clock in microseconds.

use std::ffi::c_void;
use std::ptr::null_mut;

use cuda_um_sim::{LaunchContext, ReferenceError, Sim};
use cuda_um_sys::{CUfunction, cudaMemcpyKind, cudaStream_t};

use super::cost;
use crate::support::{Cuda, bytes, call, h200, ok, with_kernel};

const PAGE: usize = 4096;
const READ_MOSTLY: u32 = 1;
const ACCESSED_BY: u32 = 5;
const HOST: i32 = -1;
const GPU: i32 = 0;

/// Name of a row, and its time for a number of bytes.
type Row = (&'static str, fn(usize) -> f64);

pub(super) const ROWS: &[Row] = &[
    ("copy pageable to the device", |len| {
        let (cuda, plain) = (h200(), vec![1u8; len]);
        let device = cuda.device(len);
        cost(&cuda, || cuda.copy(device, plain.as_ptr(), len))
    }),
    ("copy pinned to the device", |len| {
        let cuda = h200();
        let (device, pinned) = (cuda.device(len), cuda.pinned(len));
        copied(&cuda, device, pinned, len)
    }),
    ("prefetch to the device", |len| {
        let (cuda, data) = on_host(len);
        prefetched(&cuda, data, len, GPU)
    }),
    ("prefetch to the host", |len| {
        let (cuda, data) = on_gpu(len);
        prefetched(&cuda, data, len, HOST)
    }),
    ("prefetch of what is there", |len| {
        let (cuda, data) = on_gpu(len);
        prefetched(&cuda, data, len, GPU)
    }),
    ("a kernel faults it in", |len| {
        let (cuda, data) = on_host(len);
        cost(&cuda, || cuda.run("read", data, len))
    }),
    ("the CPU faults it back", |len| {
        let (cuda, data) = on_gpu(len);
        cost(&cuda, || read(data, len))
    }),
    ("copy pinned to managed on the GPU", |len| {
        let (cuda, data) = on_gpu(len);
        let pinned = cuda.pinned(len);
        copied(&cuda, data, pinned, len)
    }),
    ("copy managed on the GPU to pinned", |len| {
        let (cuda, data) = on_gpu(len);
        let pinned = cuda.pinned(len);
        copied(&cuda, pinned, data, len)
    }),
    ("scale kernel mapped in and out", mapped_both_ways),
    ("pinned copy in and scale kernel and copy out", |len| {
        let (cuda, stream) = with_stream(scaling());
        let (input, output) = (cuda.pinned(len), cuda.pinned(len));
        let (from, to) = (cuda.device(len), cuda.device(len));
        let scale = cuda.kernel("scale");
        cost(&cuda, || {
            copy_async(&cuda, from, input, len, stream);
            launch_scale(&cuda, scale, from, to, len, stream);
            copy_async(&cuda, output, to, len, stream);
            cuda.sync(stream);
        })
    }),
    ("first CPU write of fresh managed memory", |len| {
        let cuda = h200();
        let data = cuda.managed(len);
        cost(&cuda, || write(&cuda, data, len))
    }),
    ("prefetch of the empty range to the host", |len| {
        let cuda = h200();
        let data = cuda.managed(len);
        prefetched(&cuda, data, len, HOST)
    }),
    ("first CPU write after that prefetch", |len| {
        let cuda = h200();
        let data = cuda.managed(len);
        prefetched(&cuda, data, len, HOST);
        cost(&cuda, || write(&cuda, data, len))
    }),
    ("fresh managed memory populated on the GPU", |len| {
        let cuda = h200();
        let data = cuda.managed(len);
        prefetched(&cuda, data, len, GPU)
    }),
    ("allocate and free: cudaMallocManaged", |len| {
        let cuda = h200();
        cost(&cuda, || cuda.free(cuda.managed(len)))
    }),
    ("allocate and free: cudaMalloc", |len| {
        let cuda = h200();
        cost(&cuda, || cuda.free(cuda.device(len)))
    }),
    ("allocate and free: pinned", |len| {
        let cuda = h200();
        cost(&cuda, || {
            let pinned = cuda.pinned(len);
            ok(call!(cuda.table, cudaFreeHost(pinned.cast())));
        })
    }),
    ("allocate and free: managed pool", |len| {
        let (cuda, stream) = with_stream(h200());
        let pool = crate::pools::managed_pool(&cuda);
        cost(&cuda, || {
            let mut pointer = null_mut();
            ok(call!(
                cuda.table,
                cudaMallocFromPoolAsync(&mut pointer, len, pool, stream)
            ));
            ok(call!(cuda.table, cudaFreeAsync(pointer, stream)));
        })
    }),
    ("accessed-by advice", |len| {
        let (cuda, data) = on_host(len);
        cost(&cuda, || ok(cuda.advise(data, len, ACCESSED_BY, GPU)))
    }),
    ("CPU and GPU read in turn: plain", |len| {
        let (cuda, data) = scaled_on_host(len);
        turns(&cuda, data, len)
    }),
    ("CPU and GPU read in turn: read-mostly", |len| {
        let (cuda, data) = scaled_on_host(len);
        ok(cuda.advise(data, len, READ_MOSTLY, GPU));
        turns(&cuda, data, len)
    }),
    ("host rewrites what is on the GPU and prefetches", |len| {
        let (cuda, data) = on_gpu(len);
        cost(&cuda, || {
            write(&cuda, data, len);
            prefetched(&cuda, data, len, GPU);
        })
    }),
    (
        "host discards what is on the GPU and rewrites and prefetches",
        |len| {
            let (cuda, stream) = with_stream(h200());
            let data = cuda.managed(len);
            cuda.run("write", data, len);
            let discard = cuda.table.cudaMemDiscardBatchAsync.unwrap();
            cost(&cuda, || {
                let (mut pointers, mut sizes) = ([data.cast()], [len]);
                // SAFETY: both arrays have one element.
                ok(unsafe { discard(pointers.as_mut_ptr(), sizes.as_mut_ptr(), 1, 0, stream) });
                cuda.sync(stream);
                write(&cuda, data, len);
                prefetched(&cuda, data, len, GPU);
            })
        },
    ),
    ("pinned rewrite and copy", |len| {
        let cuda = h200();
        let (device, pinned) = (cuda.device(len), cuda.pinned(len));
        cost(&cuda, || {
            write(&cuda, pinned, len);
            copied(&cuda, device, pinned, len);
        })
    }),
];

/// A kernel that reads and writes pinned memory.
pub(super) fn mapped_both_ways(len: usize) -> f64 {
    let cuda = scaling();
    let (input, output) = (cuda.pinned(len), cuda.pinned(len));
    let scale = cuda.kernel("scale");
    cost(&cuda, || {
        launch_scale(&cuda, scale, input, output, len, null_mut());
        cuda.sync(null_mut());
    })
}

/// Managed memory that the host has written.
fn on_host(len: usize) -> (Cuda, *mut u8) {
    written(h200(), len)
}

/// The same, in a simulator that has the kernel `scale`.
fn scaled_on_host(len: usize) -> (Cuda, *mut u8) {
    written(scaling(), len)
}

fn written(cuda: Cuda, len: usize) -> (Cuda, *mut u8) {
    let data = cuda.managed(len);
    touch(data, len);
    (cuda, data)
}

/// Managed memory that the host has written and that is on the GPU now.
fn on_gpu(len: usize) -> (Cuda, *mut u8) {
    let (cuda, data) = on_host(len);
    prefetched(&cuda, data, len, GPU);
    (cuda, data)
}

fn with_stream(cuda: Cuda) -> (Cuda, cudaStream_t) {
    let stream = cuda.stream();
    (cuda, stream)
}

fn touch(data: *mut u8, len: usize) {
    bytes(data, len)
        .chunks_mut(PAGE)
        .for_each(|page| page[0] = 1);
}

/// The host writes everything: the simulator counts the faults, and `host_wrote` adds the rest.
fn write(cuda: &Cuda, data: *mut u8, len: usize) {
    touch(data, len);
    cuda.sim.host_wrote(data.cast(), len);
}

fn read(data: *mut u8, len: usize) {
    assert!(bytes(data, len).chunks(PAGE).all(|page| page[0] == 1));
}

fn prefetched(cuda: &Cuda, data: *mut u8, len: usize, to: i32) -> f64 {
    cost(cuda, || {
        ok(cuda.prefetch(data, len, to, null_mut()));
        cuda.sync(null_mut());
    })
}

/// An asynchronous copy and the wait.
fn copied(cuda: &Cuda, to: *mut u8, from: *mut u8, len: usize) -> f64 {
    cost(cuda, || {
        copy_async(cuda, to, from, len, null_mut());
        cuda.sync(null_mut());
    })
}

fn copy_async(cuda: &Cuda, to: *mut u8, from: *mut u8, len: usize, stream: cudaStream_t) {
    let kind = cudaMemcpyKind::cudaMemcpyDefault;
    let copied = call!(
        cuda.table,
        cudaMemcpyAsync(to.cast(), from.cast(), len, kind, stream)
    );
    ok(copied);
}

/// The GPU's turn after one of the CPU, which reads it all: a prefetch, `scale` into device memory, and the wait. The turn before is
/// not counted, nor is the CPU's own turn.
fn turns(cuda: &Cuda, data: *mut u8, len: usize) -> f64 {
    let (output, scale) = (cuda.device(len), cuda.kernel("scale"));
    let turn = || {
        read(data, len);
        cost(cuda, || {
            ok(cuda.prefetch(data, len, GPU, null_mut()));
            launch_scale(cuda, scale, data, output, len, null_mut());
            cuda.sync(null_mut());
        })
    };
    turn();
    turn()
}

/// A simulator with a kernel of three parameters: output = 2 × input.
fn scaling() -> Cuda {
    Cuda::new(with_kernel(Sim::builder(), "scale", scale))
}

fn scale(launch: &mut LaunchContext<'_>) -> Result<(), ReferenceError> {
    let len = launch.value::<u64>(2)? as usize;
    let input = launch.slice::<u8>(0, len)?;
    let output = launch.slice_mut::<u8>(1, len)?;
    for (to, from) in output.iter_mut().zip(input) {
        *to = from.wrapping_mul(2);
    }
    Ok(())
}

fn launch_scale(
    cuda: &Cuda,
    function: CUfunction,
    input: *mut u8,
    output: *mut u8,
    len: usize,
    stream: cudaStream_t,
) {
    let mut values = [input as u64, output as u64, len as u64];
    let mut arguments = values
        .each_mut()
        .map(|value| std::ptr::from_mut(value).cast::<c_void>());
    let driver = cuda.table.driver().unwrap();
    let launched = call!(
        driver,
        cuLaunchKernel(
            function,
            1,
            1,
            1,
            32,
            1,
            1,
            0,
            stream.cast(),
            arguments.as_mut_ptr(),
            null_mut()
        )
    );
    assert_eq!(launched.0, 0);
}
