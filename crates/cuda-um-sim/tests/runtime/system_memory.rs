//! Memory that is not allocated with CUDA: the effects that no conformance case sees.

use std::ffi::CStr;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cuda_um_sim::{Gpu, Misuse, Sim};
use cuda_um_sys::{DeclaredArgument, cudaError};

use crate::support::{Cuda, MIB, bytes, call, h200, host_page, ok};

const INVALID: cudaError = cudaError::cudaErrorInvalidValue;
const ILLEGAL: cudaError = cudaError::cudaErrorIllegalAddress;
const READ_WRITE: i32 = libc::PROT_READ | libc::PROT_WRITE;

/// A mapping of its own.
struct Mapped(*mut u8, usize);

impl Mapped {
    fn new(bytes: usize, protection: i32) -> Mapped {
        // Addresses of their own: other threads of this program must not get those of memory that was unmapped.
        static NEXT: AtomicUsize = AtomicUsize::new(0x2000_0000_0000);
        let hint = std::ptr::without_provenance_mut(NEXT.fetch_add(1 << 30, Ordering::Relaxed));
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a fresh mapping disturbs no other memory.
        let start = unsafe { libc::mmap(hint, bytes, protection, kind, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        Mapped(start.cast(), bytes)
    }

    fn filled(bytes_: usize) -> Mapped {
        let mapped = Mapped::new(bytes_, READ_WRITE);
        bytes(mapped.0, bytes_).fill(1);
        mapped
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the mapping was made in `new`, and the tests wait for the work on it.
        unsafe { libc::munmap(self.0.cast(), self.1) };
    }
}

fn free_bytes(cuda: &Cuda) -> usize {
    let (mut free, mut total) = (0, 0);
    ok(call!(cuda.table, cudaMemGetInfo(&mut free, &mut total)));
    free
}

/// The text of this thread's last failure with this code.
fn text(cuda: &Cuda, code: cudaError) -> String {
    let text = call!(cuda.table, cudaGetErrorString(code));
    // SAFETY: the table's texts end with NUL, and are never freed.
    unsafe { CStr::from_ptr(text) }.to_str().unwrap().to_owned()
}

#[test]
fn memory_that_was_unmapped_takes_no_memory_of_the_device() {
    let cuda = Cuda::new(Sim::builder().gpu(Gpu::Hmm));
    let before = free_bytes(&cuda);
    let memory = Mapped::filled(8 * MIB);
    ok(cuda.prefetch(memory.0, 8 * MIB, 0, null_mut()));
    cuda.sync(null_mut());
    assert_eq!(before - free_bytes(&cuda), 8 * MIB);
    drop(memory);
    assert_eq!(free_bytes(&cuda), before);
}

#[test]
fn an_allocation_evicts_system_memory() {
    let cuda = Cuda::new(Sim::builder().gpu(Gpu::Hmm).total_memory_bytes(64 << 20));
    let memory = Mapped::filled(32 * MIB);
    ok(cuda.prefetch(memory.0, 32 * MIB, 0, null_mut()));
    cuda.sync(null_mut());
    cuda.device(40 * MIB);
    let counters = cuda.sim.counters();
    assert_eq!(counters.bytes_to_device, 32 << 20);
    assert!(counters.evicted_bytes >= 16 << 20, "{counters:?}");
}

#[test]
fn only_the_touched_pages_move_and_those_never_touched_are_populated() {
    let cuda = Cuda::new(Sim::builder().gpu(Gpu::Hmm));
    let memory = Mapped::new(4 * MIB, READ_WRITE);
    let (page, size) = (memory.0.wrapping_add(MIB), host_page());
    cuda.run("add", page, size);
    let counters = cuda.sim.counters();
    assert_eq!(
        (counters.populated_bytes, counters.bytes_to_device),
        (size as u64, 0)
    );
    bytes(memory.0, MIB).fill(1);
    cuda.run("add", memory.0, size + 1);
    let counters = cuda.sim.counters();
    assert_eq!(
        (counters.populated_bytes, counters.bytes_to_device),
        (size as u64, 2 * size as u64)
    );
    assert_eq!((bytes(page, 1)[0], bytes(memory.0, 1)[0]), (1, 2));
    // The program's writes are counted where it tells of them.
    cuda.sim.host_wrote(memory.0.cast(), 2 * size);
    assert_eq!(cuda.sim.counters().bytes_to_host, 2 * size as u64);
    assert!(cuda.sim.counters().cpu_faults > 0);
}

#[test]
fn kernels_take_the_time_of_the_link_or_of_the_one_memory() {
    let took = |gpu| {
        let cuda = Cuda::new(Sim::builder().gpu(gpu));
        let memory = Mapped::filled(64 * MIB);
        // A fixed time of the kernel drops out.
        let time = |bytes| {
            let before = cuda.sim.now();
            cuda.run("read", memory.0, bytes);
            cuda.sim.now() - before
        };
        let (small, large) = (time(4096), time(64 * MIB));
        assert_eq!(cuda.sim.counters().gpu_faults, 0, "{gpu:?}");
        large - small
    };
    let at = |rate: f64| Duration::from_secs_f64((64 * MIB - 4096) as f64 / rate);
    for (gpu, rate) in [(Gpu::Gh200, 380e9), (Gpu::Gb10, 273e9)] {
        let difference = took(gpu).abs_diff(at(rate));
        assert!(
            difference < Duration::from_micros(1),
            "{gpu:?}: {difference:?}"
        );
    }
}

#[test]
fn nothing_faults_or_moves_in_one_memory() {
    let cuda = Cuda::new(Sim::builder().gpu(Gpu::Gb10));
    let data = cuda.managed(3 * MIB);
    bytes(data, 3 * MIB).fill(1);
    for round in 0..2 {
        cuda.run("add", data, 3 * MIB);
        assert!(bytes(data, 3 * MIB).iter().all(|byte| *byte == 2 + round));
        ok(cuda.prefetch(data, 3 * MIB, i32::from(round) - 1, null_mut()));
    }
    cuda.sync(null_mut());
    let counters = cuda.sim.counters();
    let moved = counters.bytes_to_device + counters.bytes_to_host + counters.prefetched_bytes;
    assert_eq!((moved, counters.gpu_faults, counters.cpu_faults), (0, 0, 0));
    cuda.free(data);
}

#[test]
fn a_declared_argument_is_the_extent_of_system_memory() {
    let run = |len: usize, declared: usize, memory: &Mapped| {
        let cuda = Cuda::new(Sim::builder().gpu(Gpu::Gh200));
        let launch = cuda.table.declared_launch().unwrap();
        let function = cuda.kernel("write");
        let (pointer, len) = (memory.0 as u64, len as u64);
        let mut arguments = [
            (&raw const pointer).cast_mut().cast(),
            (&raw const len).cast_mut().cast(),
        ];
        let memory = DeclaredArgument {
            is_memory: true,
            may_write: true,
            bytes: declared,
        };
        let mut declared = [memory, DeclaredArgument::VALUE];
        let (arguments, declared) = (arguments.as_mut_ptr(), declared.as_mut_ptr().cast());
        let code = call!(launch(
            function,
            1,
            1,
            1,
            1,
            1,
            1,
            0,
            null_mut(),
            arguments,
            declared
        ));
        assert_eq!(code.0, 0);
        call!(cuda.table, cudaDeviceSynchronize())
    };
    let memory = Mapped::filled(2 * host_page());
    assert_eq!(run(64, 64, &memory), cudaError::cudaSuccess);
    assert_eq!(bytes(memory.0, 65)[62..], [7, 7, 1]);
    assert_eq!(run(65, 64, &memory), ILLEGAL);
    let unreadable = Mapped::new(4096, libc::PROT_NONE);
    assert_eq!(run(64, 64, &unreadable), ILLEGAL);
}

#[test]
fn a_device_without_pageable_access_names_the_pointer_itself_and_the_ways_out() {
    let cuda = h200();
    let memory = Mapped::filled(4096);
    let named = |text: &str| {
        let (address, device) = (format!("{:#x}", memory.0 as usize), "Simulated NVIDIA H200");
        [
            address.as_str(),
            device,
            "cudaMallocManaged",
            "cudaHostRegister",
        ]
        .iter()
        .all(|part| text.contains(part))
    };
    assert_eq!(cuda.prefetch(memory.0, 4096, 0, null_mut()), INVALID);
    assert!(named(&text(&cuda, INVALID)), "{}", text(&cuda, INVALID));
    assert_eq!(cuda.advise(memory.0, 4096, 1, 0), INVALID);
    assert!(named(&text(&cuda, INVALID)), "{}", text(&cuda, INVALID));
    cuda.launch("add", memory.0, 4096, null_mut());
    assert_eq!(call!(cuda.table, cudaDeviceSynchronize()), ILLEGAL);
    let misuse = cuda.sim.misuse();
    let [Misuse::KernelFault { text, .. }] = misuse.as_slice() else {
        panic!("{misuse:?}");
    };
    assert!(named(text) && text.contains("device 0"), "{text}");
}
