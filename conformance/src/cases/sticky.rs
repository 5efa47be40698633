//! Errors that end a context. Each case breaks the context of its own process. Guards are forgotten, because nothing can be
//! freed.

use super::prelude::*;
use crate::call::Shape;
use crate::kernels::PTX;
use std::mem::forget;

pub(super) const CASES: &[Case] = cases! {
    // If the device can access the host's memory, the simulator's kernels run as host threads and crash here.
    "sticky.illegal-address" (illegal_address):
        "A kernel's access to an invalid address is reported by a later call as an illegal address.",
        sources::TYPES, &["cuLaunchKernel", "cudaStreamSynchronize"], needs(&[Need::NoPageableAccess]), alone();
    "sticky.misaligned-address" (misaligned_address):
        "A kernel's access to an address that is not a multiple of the element's size is reported as a misaligned address.",
        sources::TYPES, &["cuLaunchKernel", "cudaStreamSynchronize"], alone();
    "sticky.trap" (trap):
        "A kernel that traps also breaks the context.",
        sources::TYPES, &["cuLaunchKernel", "cudaStreamSynchronize"], alone();
    "sticky.every-call" (every_call):
        "After a sticky error every call returns it: allocation, copies, streams, events, the driver.",
        sources::TYPES, &["cudaMalloc", "cudaMallocManaged", "cudaMemcpy", "cudaStreamCreateWithFlags",
            "cudaEventRecord", "cuModuleLoadData"], alone();
    "sticky.not-cleared" (not_cleared):
        "Reading the last error does not clear a sticky error: the next call returns it again.",
        sources::ERROR, &["cudaGetLastError", "cudaPeekAtLastError"], alone();
    "sticky.all-threads" (all_threads):
        "All threads of the process get the sticky error.",
        sources::TYPES, &["cudaDeviceSynchronize"], alone();
    "sticky.other-streams" (other_streams):
        "A sticky error also ends the work of other streams.",
        sources::TYPES, &["cudaStreamSynchronize", "cudaStreamQuery"], alone();
    "sticky.memory-not-freed" (memory_not_freed):
        "Memory cannot be freed in a broken context: the free returns the sticky error.",
        sources::TYPES, &["cudaFree", "cudaFreeHost"], alone();
};

/// An address without an allocation.
const NOWHERE: usize = 0x1000;

/// One word.
const ONE: Shape = Shape::of(1, 1);

/// Breaks the context by a misaligned access, and waits for the error. The launch itself succeeds.
fn broken(c: &Cuda<'_>) -> Verdict {
    let (memory, stream) = (c.device_memory(4 * KIB)?, c.stream()?);
    let launched = c.add_at(memory.address() + 2, 1, 1, ONE, &stream)?;
    let code = stream.synchronize();
    forget((memory, stream));
    c.is("cuLaunchKernel", launched, Code::SUCCESS)?;
    c.is("cudaStreamSynchronize", code, Code::MISALIGNED_ADDRESS)
}

fn illegal_address(c: &Cuda<'_>) -> Verdict {
    let stream = c.stream()?;
    let launched = c.add_at(NOWHERE, 1, 1, ONE, &stream)?;
    let code = stream.synchronize();
    forget(stream);
    c.succeeds("cuLaunchKernel", launched)?;
    c.gives("cudaStreamSynchronize", code, Code::ILLEGAL_ADDRESS)?;
    c.gives(
        "cudaDeviceSynchronize",
        c.synchronize(),
        Code::ILLEGAL_ADDRESS,
    )
}

fn misaligned_address(c: &Cuda<'_>) -> Verdict {
    broken(c)?;
    c.gives(
        "cudaDeviceSynchronize",
        c.synchronize(),
        Code::MISALIGNED_ADDRESS,
    )
}

fn trap(c: &Cuda<'_>) -> Verdict {
    let stream = c.stream()?;
    let launched = c.launch_trap(&stream)?;
    let code = stream.synchronize();
    forget(stream);
    c.succeeds("cuLaunchKernel", launched)?;
    // The code is not documented.
    c.holds(
        "cudaStreamSynchronize fails",
        code != Code::SUCCESS && code != Code::NOT_READY,
    )?;
    let (malloc, _) = c.try_device(4 * KIB);
    c.is("cudaMalloc gives the same", malloc == code, true)?;
    c.is(
        "cudaDeviceSynchronize gives the same",
        c.synchronize() == code,
        true,
    )
}

fn every_call(c: &Cuda<'_>) -> Verdict {
    let (memory, pinned) = (c.device_memory(4 * KIB)?, c.pinned(4 * KIB, 0)?);
    let (stream, event) = (c.stream()?, c.event(0)?);
    let verdict = broken(c).and_then(|()| {
        for (name, code) in [
            ("cudaMalloc", c.try_device(4 * KIB).0),
            ("cudaMallocManaged", c.try_managed(4 * KIB, 1).0),
            ("cudaHostAlloc", c.try_pinned(4 * KIB, 0).0),
            ("cudaMemcpy", c.copy(&memory, &pinned, kind::DEFAULT)),
            (
                "cudaMemcpyAsync",
                c.copy_async(&memory, &pinned, kind::DEFAULT, &stream),
            ),
            ("cudaMemset", c.set(&memory, 0, memory.bytes())),
            ("cudaStreamCreateWithFlags", c.try_stream(0).0),
            ("cudaStreamQuery", stream.query()),
            ("cudaStreamSynchronize", stream.synchronize()),
            ("cudaEventCreateWithFlags", c.try_event(0).0),
            ("cudaEventRecord", event.record(&stream)),
            ("cuModuleLoadData", c.load_module(PTX)?.0),
        ] {
            c.gives(name, code, Code::MISALIGNED_ADDRESS)?;
        }
        Ok(())
    });
    forget((memory, pinned, stream, event));
    verdict
}

fn not_cleared(c: &Cuda<'_>) -> Verdict {
    broken(c)?;
    c.is("peeked", c.peek_error(), Code::MISALIGNED_ADDRESS)?;
    c.is("asked", c.last_error(), Code::MISALIGNED_ADDRESS)?;
    for _ in 0..3 {
        c.last_error();
        c.is("the next call", c.synchronize(), Code::MISALIGNED_ADDRESS)?;
    }
    Ok(())
}

fn all_threads(c: &Cuda<'_>) -> Verdict {
    broken(c)?;
    let machine = c.machine;
    let there = std::thread::scope(|scope| {
        let thread = scope.spawn(|| Cuda::new(machine).synchronize());
        thread
            .join()
            .map_err(|_| Failure("the thread panicked".to_owned()))
    })?;
    c.is("in another thread", there, Code::MISALIGNED_ADDRESS)
}

fn other_streams(c: &Cuda<'_>) -> Verdict {
    let (memory, other) = (c.device_memory(4 * KIB)?, c.stream()?);
    c.ok("cudaMemset", c.set(&memory, 0, memory.bytes()))?;
    c.add(&memory, 1, &other)?;
    c.ok("cudaStreamSynchronize", other.synchronize())?;
    let verdict = broken(c).and_then(|()| {
        c.gives("cudaStreamQuery", other.query(), Code::MISALIGNED_ADDRESS)?;
        c.gives(
            "cudaStreamSynchronize",
            other.synchronize(),
            Code::MISALIGNED_ADDRESS,
        )
    });
    forget((memory, other));
    verdict
}

fn memory_not_freed(c: &Cuda<'_>) -> Verdict {
    let (memory, pinned) = (c.device_memory(4 * KIB)?, c.pinned(4 * KIB, 0)?);
    let verdict = broken(c);
    let (device, host) = (memory.free(), pinned.free());
    verdict?;
    c.gives("cudaFree", device, Code::MISALIGNED_ADDRESS)?;
    c.gives("cudaFreeHost", host, Code::MISALIGNED_ADDRESS)
}
