//! Copies from and to pageable memory, overwrites, and reads of storage: one mechanism, whatever the source, the target, the size and the threads.

mod overwrite;
mod reads;
mod small;
mod ways;

use cuda_um::buffer::{FileRead, ReadAt, Runs, TransferOptions};
use cuda_um::{Device, DeviceBuffer, Error, PinnedBuffer, Result, UnifiedBuffer, ViewMut};
use cuda_um_sim::{Fail, Gpu, Leak, Sim};
use cuda_um_sys::cudaError;
use cuda_um_testkit::watchdog::watch;
use cuda_um_testkit::{calls, device, fails, simulated};
use std::io;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};

const MIB: usize = 1 << 20;

/// Different numbers for each seed and position.
fn numbers(count: usize, seed: u32) -> Vec<u32> {
    (0..count as u32)
        .map(|i| i.wrapping_mul(2_654_435_761) ^ seed)
        .collect()
}

/// Small chunks, so that small copies have several pieces. They are allocated at once.
fn small(threads: usize) -> TransferOptions {
    TransferOptions::default()
        .threads(threads)
        .ring_bytes(threads * 2 * 16384)
}

/// The sizes of all pinned memory that has not been freed.
fn pinned(sim: &Sim) -> Vec<usize> {
    let leaks = sim.leaks().into_iter();
    let bytes = leaks.filter_map(|leak| match leak {
        Leak::Memory {
            bytes,
            kind: "cudaHostAlloc",
            ..
        }
        | Leak::Registration { bytes, .. } => Some(bytes),
        _ => None,
    });
    bytes.collect()
}

fn on(_: usize) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn read(target: ViewMut<'_, u8>, source: &dyn ReadAt, runs: &[Runs]) -> Result<usize> {
    FileRead::run(&mut [FileRead::new(target, source, runs)?], usize::MAX, on)
}

fn whole(bytes: usize) -> [Runs; 1] {
    [Runs {
        offset: 0,
        at: 0,
        bytes,
        count: 1,
        stride: 0,
    }]
}

/// Bytes in memory, which are read by so many at a time. Every third call is interrupted, and a read at `fails_at` fails.
struct Storage {
    bytes: Vec<u8>,
    at_a_time: usize,
    fails_at: Option<(u64, io::ErrorKind)>,
    calls: AtomicUsize,
}

impl Storage {
    fn new(bytes: Vec<u8>) -> Self {
        Self {
            bytes,
            at_a_time: 7000,
            fails_at: None,
            calls: AtomicUsize::new(0),
        }
    }

    fn of(bytes: usize) -> Self {
        Self::new((0..bytes).map(|at| (at % 251) as u8 + 1).collect())
    }
}

impl ReadAt for Storage {
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        if self.calls.fetch_add(1, Ordering::Relaxed) % 3 == 1 {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let mut end = self.bytes.len();
        if let Some((at, kind)) = self.fails_at {
            if offset >= at {
                return Err(kind.into());
            }
            end = at as usize;
        }
        let from = &self.bytes[(offset as usize).min(end)..end];
        let count = from.len().min(into.len()).min(self.at_a_time);
        into[..count].copy_from_slice(&from[..count]);
        Ok(count)
    }
}

/// A copy that finds no pinned memory is left to the driver. Then a thread allocates it.
#[test]
fn the_first_copy_waits_for_no_pinned_memory() {
    let _watchdog = watch();
    let source = vec![3u8; 3 * MIB];
    for to_host in [false, true] {
        let (sim, device, _) = simulated(Gpu::H200);
        device.set_transfer_options(TransferOptions::default().threads(2).ring_bytes(8 * MIB));
        let mut buffer = DeviceBuffer::<u8>::zeroed(&device, source.len()).unwrap();
        let mut copy = || {
            let before = calls(&sim, "cudaMemcpyAsync");
            match to_host {
                false => buffer.copy_from_host(&source).unwrap(),
                true => buffer.copy_to_host(&mut vec![0; 3 * MIB]).unwrap(),
            }
            calls(&sim, "cudaMemcpyAsync") - before
        };
        sim.clear_trace();
        assert_eq!(copy(), 1, "the driver");
        while copy() == 1 {
            std::thread::yield_now();
        }
        let names = sim.trace().into_iter().map(|call| call.name);
        let steps = ["cudaStreamSynchronize", "cudaHostRegister"];
        let first = names.filter(|name| steps.contains(name)).take(1);
        assert!(first.eq(["cudaStreamSynchronize"]), "both at a time");
        assert_eq!(pinned(&sim), [8 * MIB]);
        device.trim();
        assert_eq!(pinned(&sim), [0; 0]);
        // The drop of the device waits for the thread.
        assert_eq!(copy(), 1);
    }
}

#[test]
fn lanes_are_allocated_once_and_as_copies_need_them() {
    let (sim, device, _) = simulated(Gpu::H200);
    let options = small(2).ring_bytes(32 << 10);
    device.set_transfer_options(options);
    let mut buffer = DeviceBuffer::<u32>::zeroed(&device, 600_000).unwrap();
    for round in 0..2 {
        buffer.copy_from_host_at(0, &[round; 100]).unwrap();
        assert_eq!(pinned(&sim).len(), 1, "the piece of small copies");
        device.trim();
        assert_eq!(pinned(&sim), [0; 0]);
        assert_eq!(buffer.read_one(99).unwrap(), round);
        device.trim();
    }
    // A copy of 128 KiB and less has memory of its own.
    for (count, lanes) in [(40_000, 1), (600_000, 2), (40_000, 2), (600_000, 2)] {
        buffer.copy_from_host_at(0, &numbers(count, 2)).unwrap();
        assert_eq!(pinned(&sim), [16384; 2][..lanes]);
    }
    device.set_transfer_options(options.ring_bytes(0));
    assert_eq!(pinned(&sim), [0; 0]);
    buffer.copy_from_host(&numbers(600_000, 3)).unwrap();
    assert_eq!(pinned(&sim), [0; 0], "staging is off");
    device.set_transfer_options(small(1));
    buffer.copy_from_host(&numbers(600_000, 4)).unwrap();
    // The ring is freed with the device: at the end nothing is left.
    assert_eq!(pinned(&sim), [32768]);
}

#[test]
fn one_mebibyte_goes_to_an_idle_stream_by_the_driver_and_to_a_busy_one_through_the_ring() {
    let (sim, device, stream) = simulated(Gpu::H200);
    device.set_transfer_options(small(2).ring_bytes(MIB));
    let source = numbers(1 << 18, 10);
    let mut buffer = DeviceBuffer::<u32>::zeroed(&device, source.len()).unwrap();
    device.synchronize().unwrap();
    buffer.copy_from_host(&source).unwrap();
    assert_eq!(pinned(&sim), [0; 0]);
    // The copy waits on its stream for the work of another one; the call returns.
    let _watchdog = watch();
    let paused = sim.pause();
    buffer.fill_on(1, &stream).unwrap();
    buffer.copy_from_host_at(0, &source[..1 << 17]).unwrap();
    assert!(!stream.is_idle().unwrap());
    assert_eq!(pinned(&sim), [MIB / 2]);
    drop(paused);
    assert_eq!(buffer.to_vec().unwrap()[..1 << 17], source[..1 << 17]);
}

/// claim 1
#[test]
fn a_copy_to_the_device_returns_when_its_source_is_free() {
    let (_sim, device, stream) = simulated(Gpu::H200);
    device.set_transfer_options(small(1));
    let mut buffer = DeviceBuffer::<u32>::zeroed(&device, 30_000).unwrap();
    for round in 0..6 {
        let mut source = vec![round; 30_000];
        buffer.copy_from_host(&source).unwrap();
        // The copy may still be in flight.
        source.fill(u32::MAX);
        let mut other = DeviceBuffer::<u32>::zeroed(&device, 30_000).unwrap();
        stream.copy(&buffer, &mut other).unwrap();
        assert_eq!(other.to_vec().unwrap(), vec![round; 30_000]);
    }
}

#[test]
fn pinned_memory_needs_no_staging() {
    let (sim, device, _) = simulated(Gpu::H200);
    device.set_transfer_options(small(2));
    let source = PinnedBuffer::from_slice(&device, &numbers(50_000, 3)).unwrap();
    let mut buffer = DeviceBuffer::<u32>::zeroed(&device, 50_000).unwrap();
    let before = pinned(&sim);
    sim.clear_trace();
    let guard = source.host().unwrap();
    buffer.copy_from_host(&guard).unwrap();
    assert_eq!(calls(&sim, "cudaMemcpyAsync"), 1);
    assert_eq!(pinned(&sim), before);
    assert!(buffer.to_vec().unwrap() == *guard);
}

/// claim 25
#[test]
fn a_failure_half_way_says_how_far_it_came_and_the_ring_goes_on() {
    let (sim, device, _) = simulated(Gpu::H200);
    let source = numbers(100_000, 4);
    for (threads, to_host) in [(1, false), (1, true), (2, false), (2, true)] {
        device.set_transfer_options(small(threads));
        let mut buffer = DeviceBuffer::<u32>::zeroed(&device, 100_000).unwrap();
        let mut back = vec![0; 100_000];
        if to_host {
            buffer.copy_from_host(&source).unwrap();
        }
        device.synchronize().unwrap();
        let fail = Fail::call("cudaMemcpyAsync").nth(8);
        sim.fail(fail.with(cudaError::cudaErrorInvalidValue));
        let failed = match to_host {
            false => buffer.copy_from_host(&source),
            true => buffer.copy_to_host(&mut back),
        };
        let Err(Error::Incomplete {
            copied_bytes,
            total_bytes: 400_000,
            ..
        }) = failed
        else {
            panic!("{failed:?}")
        };
        assert!((1..400_000).contains(&copied_bytes), "{copied_bytes}");
        if !to_host {
            buffer.copy_to_host(&mut back).unwrap();
        }
        let certain = copied_bytes / 4;
        assert!(back[..certain] == source[..certain], "{copied_bytes}");
        buffer.copy_from_host(&source).unwrap();
        assert!(buffer.to_vec().unwrap() == source);
    }
}

/// Counts its turns while the other task lives.
#[test]
fn tasks_on_one_thread_take_turns_while_they_copy() {
    let (_sim, device, _) = simulated(Gpu::H200);
    let (source, mut turns) = (numbers(5 << 20, 8), 0);
    let mut copies = Box::pin(async {
        let mut buffer = UnifiedBuffer::<u32>::zeroed(&device, source.len()).unwrap();
        buffer.copy_from_host_async(&source).await.unwrap();
        let mut back = vec![0; source.len()];
        buffer.copy_to_host_async(&mut back).await.unwrap();
        assert!(back == source && buffer.to_vec().unwrap() == source);
    });
    pollster::block_on(std::future::poll_fn(|context| {
        turns += 1;
        copies.as_mut().poll(context)
    }));
    assert!(turns >= 10, "five pieces of 4 MiB each way: {turns}");
}

#[test]
fn an_asynchronous_copy_that_ends_half_way_says_how_far_it_came() {
    let (sim, device, _) = simulated(Gpu::H200);
    // The driver copies each piece of 4 MiB in one call.
    device.set_transfer_options(small(1).ring_bytes(0));
    let source = numbers(3 << 20, 9);
    let mut buffer = DeviceBuffer::<u32>::zeroed(&device, source.len()).unwrap();
    device.synchronize().unwrap();
    let fail = Fail::call("cudaMemcpyAsync").nth(2);
    sim.fail(fail.with(cudaError::cudaErrorInvalidValue));
    let copied = pollster::block_on(buffer.copy_from_host_async(&source));
    fails!(
        copied,
        Error::Incomplete { copied_bytes, total_bytes: 12_582_912, .. } if copied_bytes == 4 * MIB
    );
    assert!(buffer.to_vec().unwrap()[..MIB] == source[..MIB]);
}
