//! Errors that end a context. Each case breaks the context of its own process, in which nothing can be freed.

use super::*;
use crate::kernels::PTX;

cases! {
    /// A kernel's access to an invalid address is reported by a later call as an illegal address.
    "sticky.illegal-address" TYPES [cuLaunchKernel, cudaStreamSynchronize] (NoPageableAccess) alone |c, stream| {
        let launched = c.add_at(NOWHERE, 1, 1, ONE, &stream);
        let code = stream.synchronize();
        c.succeeds("cuLaunchKernel", launched);
        c.gives("cudaStreamSynchronize", code, ILLEGAL_ADDRESS);
        c.gives("cudaDeviceSynchronize", c.synchronize(), ILLEGAL_ADDRESS);
    }
    /// A kernel's access to an address that is not a multiple of the element's size is reported as a misaligned address.
    "sticky.misaligned-address" TYPES [cuLaunchKernel, cudaStreamSynchronize] alone |c| {
        broken(c);
        c.gives("cudaDeviceSynchronize", c.synchronize(), MISALIGNED_ADDRESS);
    }
    /// A kernel that traps also breaks the context.
    "sticky.trap" TYPES [cuLaunchKernel, cudaStreamSynchronize] alone |c, stream| {
        let launched = c.launch_trap(&stream);
        let code = stream.synchronize();
        c.succeeds("cuLaunchKernel", launched);
        // The code is not documented.
        c.holds("cudaStreamSynchronize fails", code.is_err() && code != Err(NOT_READY));
        c.is("cudaMalloc gives the same", c.malloc(4 * KIB).map(drop) == code, true);
        c.is("cudaDeviceSynchronize gives the same", c.synchronize() == code, true);
    }
    /// After a sticky error every call returns it: allocation, copies, streams, events, the driver.
    "sticky.every-call" TYPES [cudaMalloc, cudaMallocManaged, cudaMemcpy, cudaStreamCreateWithFlags, cudaEventRecord, cuModuleLoadData] alone |c, stream| {
        let (memory, pinned, event) = (c.device(4 * KIB), c.pinned(4 * KIB, 0), c.event(0));
        broken(c);
        for (name, got) in [
            ("cudaMalloc", c.malloc(4 * KIB).map(drop)),
            ("cudaMallocManaged", c.malloc_managed(4 * KIB, 1).map(drop)),
            ("cudaHostAlloc", c.host_alloc(4 * KIB, 0).map(drop)),
            ("cudaMemcpy", c.copy(&memory, &pinned, DEFAULT)),
            ("cudaMemcpyAsync", c.copy_async(&memory, &pinned, DEFAULT, &stream)),
            ("cudaMemset", c.memset(&memory, 0, memory.bytes())),
            ("cudaStreamCreateWithFlags", c.stream_create(0).map(drop)),
            ("cudaStreamQuery", stream.query()),
            ("cudaStreamSynchronize", stream.synchronize()),
            ("cudaEventCreateWithFlags", c.event_create(0).map(drop)),
            ("cudaEventRecord", event.record(&stream)),
            ("cuModuleLoadData", c.module_load(PTX).map(drop)),
        ] {
            c.gives(name, got, MISALIGNED_ADDRESS);
        }
    }
    /// Reading the last error does not clear a sticky error: the next call returns it again.
    "sticky.not-cleared" ERROR [cudaGetLastError, cudaPeekAtLastError] alone |c| {
        broken(c);
        c.is("peeked", c.peek_error(), MISALIGNED_ADDRESS);
        c.is("asked", c.last_error(), MISALIGNED_ADDRESS);
        for _ in 0..3 {
            c.last_error();
            c.is("the next call", code_of(&c.synchronize()), MISALIGNED_ADDRESS);
        }
    }
    /// All threads of the process get the sticky error.
    "sticky.all-threads" TYPES [cudaDeviceSynchronize] alone |c| {
        broken(c);
        c.is("in another thread", code_of(&c.elsewhere(|c| c.synchronize())), MISALIGNED_ADDRESS);
    }
    /// A sticky error also ends the work of other streams.
    "sticky.other-streams" TYPES [cudaStreamSynchronize, cudaStreamQuery] alone |c, other| {
        let memory = c.device(4 * KIB);
        ok(c.memset(&memory, 0, memory.bytes()));
        other.add(&memory, 1).sync();
        broken(c);
        c.gives("cudaStreamQuery", other.query(), MISALIGNED_ADDRESS);
        c.gives("cudaStreamSynchronize", other.synchronize(), MISALIGNED_ADDRESS);
    }
    /// Memory cannot be freed in a broken context: the free returns the sticky error.
    "sticky.memory-not-freed" TYPES [cudaFree, cudaFreeHost] alone |c| {
        let (memory, pinned) = (c.device(4 * KIB), c.pinned(4 * KIB, 0));
        broken(c);
        c.gives("cudaFree", memory.free(), MISALIGNED_ADDRESS);
        c.gives("cudaFreeHost", pinned.free(), MISALIGNED_ADDRESS);
    }
}

/// An address without an allocation.
const NOWHERE: usize = 0x1000;

/// One word.
const ONE: Shape = Shape::of(1, 1);

/// Breaks the context by a misaligned access, and waits for the error. The launch itself succeeds.
fn broken(c: &Cuda<'_>) {
    let (memory, stream) = (c.device(4 * KIB), c.stream());
    let launched = c.add_at(memory.at() + 2, 1, 1, ONE, &stream);
    let code = stream.synchronize();
    c.is("cuLaunchKernel", code_of(&launched), SUCCESS);
    c.is("cudaStreamSynchronize", code_of(&code), MISALIGNED_ADDRESS);
}
