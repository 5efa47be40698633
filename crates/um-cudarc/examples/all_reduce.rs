//! An all-reduce of cudarc's NCCL communicators over unified and device buffers of cuda-um, in order with cuda-um's work on another stream.
//!
//! Each GPU is a rank with a thread of its own. Every element of the results is checked. The program fails if there are no two GPUs, and without
//! `libnccl.so` on the loader's path: cudarc does not look for `libnccl.so.2`, so a machine with this file only needs a link to it.
#![allow(unsafe_code, reason = "calls NCCL with a buffer's address")]

use cuda_um::{DeviceBuffer, PinnedBuffer, Runtime, Stream, UnifiedBuffer};
use cuda_um_testkit::say;
use cudarc::driver::CudaContext;
use cudarc::nccl::result::NcclError;
use cudarc::nccl::safe::{Comm, Id, ReduceOp};
use cudarc::nccl::sys::is_culib_present;
use std::error::Error;
use std::mem::ManuallyDrop;
use std::sync::{Arc, Barrier};
use std::thread;
use um_cudarc::{SharedDevice, SharedStream};

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Outcome {
    let ranks = usize::try_from(CudaContext::device_count()?)?;
    if ranks < 2 {
        return Err(format!("an all-reduce needs two GPUs, and there is {ranks}").into());
    }
    // SAFETY: only looks for the library.
    if !unsafe { is_culib_present() } {
        return Err("there is no libnccl.so on the loader's path".into());
    }
    let (runtime, id) = (Runtime::open()?, Id::new().map_err(text)?);
    let all = Barrier::new(ranks);
    thread::scope(|scope| {
        let (runtime, all) = (&runtime, &all);
        let start = |rank| scope.spawn(move || run(runtime, id, rank, ranks, all));
        let threads: Vec<_> = (0..ranks).map(start).collect();
        let ended = threads.into_iter().map(|thread| match thread.join() {
            Ok(outcome) => outcome,
            Err(_) => Err("a rank panicked".into()),
        });
        ended.collect::<Vec<_>>().into_iter().collect::<Outcome>()
    })?;
    say!("{ranks} ranks: all elements of the sums are right");
    Ok(())
}

/// One rank.
fn run(runtime: &Runtime, id: Id, rank: usize, ranks: usize, all: &Barrier) -> Outcome {
    let context = CudaContext::new(rank)?;
    let shared = SharedDevice::new(&context, runtime)?;
    let stream = shared.adopt(&context.new_stream()?)?;
    let comm = Comm::from_rank(Arc::clone(stream.theirs()), rank, ranks, id).map_err(text)?;
    let other = shared.device().create_stream()?;
    let outcome = [1, 1000, 4 << 20].into_iter().try_for_each(|len| {
        unified(&comm, &stream, &other, len)?;
        on_device(&comm, &stream, &other, len)
    });
    // The end of a communicator aborts what the others still do with it.
    all.wait();
    outcome
}

/// An element of a rank.
fn element(rank: usize, index: usize) -> u32 {
    (index * (rank + 1) % 1013) as u32
}

/// The host writes the source in place, and cuda-um's work on another stream comes before and after the all-reduce.
fn unified(comm: &Comm, stream: &SharedStream, other: &Stream, len: usize) -> Outcome {
    let device = stream.device().device();
    let mut source = stream.share(UnifiedBuffer::<u32>::zeroed(device, len)?)?;
    for (index, value) in source.host_mut()?.iter_mut().enumerate() {
        *value = element(comm.rank(), index);
    }
    let mut sum = stream.share(UnifiedBuffer::<u32>::zeroed(device, len)?)?;
    sum.with_mut(|mut sum| sum.fill_on(u32::MAX, other))?;
    comm.all_reduce(&source, &mut sum, &ReduceOp::Sum)
        .map_err(text)?;
    let mut copy = PinnedBuffer::<u32>::zeroed(device, len)?;
    sum.with_mut(|sum| other.copy(&sum, &mut copy))?;
    check(comm, &copy.host()?, "unified memory")?;
    check(comm, &sum.host()?, "unified memory in place")
}

/// The same with device memory.
fn on_device(comm: &Comm, stream: &SharedStream, other: &Stream, len: usize) -> Outcome {
    let device = stream.device().device();
    let own: Vec<u32> = (0..len).map(|i| element(comm.rank(), i)).collect();
    let own = PinnedBuffer::from_slice(device, &own)?;
    let mut data = DeviceBuffer::<u32>::zeroed(device, len)?;
    other.copy(&own, &mut data)?;
    all_reduce_in_place(comm, stream, &mut data)?;
    let mut copy = PinnedBuffer::<u32>::zeroed(device, len)?;
    other.copy(&data, &mut copy)?;
    check(comm, &copy.host()?, "device memory")
}

/// Sums a buffer of cuda-um over all ranks: one use of the buffer, after its earlier work on any stream, and before its later work.
fn all_reduce_in_place(
    comm: &Comm,
    stream: &SharedStream,
    buffer: &mut DeviceBuffer<u32>,
) -> Outcome {
    let len = buffer.len();
    // SAFETY: the work is on this stream and stays within the buffer, which has so many elements. The slice is not dropped, so it frees nothing.
    let summed = unsafe {
        stream.ours().enqueue_foreign((buffer,), |work| {
            let address = work.pointer::<u32>(0) as u64;
            let slice = stream.theirs().upgrade_device_ptr::<u32>(address, len);
            let mut slice = ManuallyDrop::new(slice);
            let summed = comm.all_reduce_in_place(&mut *slice, &ReduceOp::Sum);
            let _ = ManuallyDrop::into_inner(slice).leak();
            summed
        })
    }?;
    summed.map(drop).map_err(text)
}

fn check(comm: &Comm, found: &[u32], what: &str) -> Outcome {
    for (index, found) in found.iter().enumerate() {
        let expected: u32 = (0..comm.world_size())
            .map(|rank| element(rank, index))
            .sum();
        if *found != expected {
            let rank = comm.rank();
            let text =
                format!("{what}, rank {rank}, element {index}: {found}, and {expected} is right");
            return Err(text.into());
        }
    }
    Ok(())
}

fn text(error: NcclError) -> Box<dyn Error + Send + Sync> {
    format!("NCCL: {:?}", error.0).into()
}
