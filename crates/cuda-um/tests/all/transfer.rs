//! Large copies from and to pageable memory: staged through pinned memory, on several threads.

mod overwrite;

use cuda_um::{DeviceBuffer, Error, PinnedBuffer, UnifiedBuffer, buffer::TransferOptions};
use cuda_um_sim::{Fail, Gpu, Leak};
use cuda_um_sys::cudaError;
use cuda_um_testkit::watchdog::watch;
use cuda_um_testkit::{calls, device, simulated, unpooled};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Different numbers for each seed and position.
fn numbers(count: usize, seed: u32) -> Vec<u32> {
    (0..count as u32)
        .map(|i| i.wrapping_mul(2_654_435_761) ^ seed)
        .collect()
}

/// Small pieces, so that small copies have several.
fn small(threads: usize) -> TransferOptions {
    TransferOptions::default()
        .threads(threads)
        .ring_bytes(threads * 2 * 16384)
        .from_bytes(10_000)
}

#[test]
fn every_element_arrives_whatever_the_size_and_the_threads() {
    let (_sim, device, _) = device();
    for threads in [1, 2, 3] {
        device.set_transfer_options(small(threads));
        for count in [2500, 4096, 4097, 100_000, 1_000_003] {
            let source = numbers(count, threads as u32);
            let mut unified = UnifiedBuffer::<u32>::zeroed(&device, count + 5).unwrap();
            let mut memory = DeviceBuffer::<u32>::zeroed(&device, count + 5).unwrap();
            unified.copy_from_host_at(3, &source).unwrap();
            memory.copy_from_host_at(3, &source).unwrap();
            let mut back = vec![1; count + 5];
            memory.copy_to_host(&mut back).unwrap();
            assert!(
                back[3..count + 3] == source,
                "{count} elements, {threads} threads"
            );
            assert_eq!((&back[..3], &back[count + 3..]), (&[0; 3][..], &[0; 2][..]));
            let mut part = vec![1; count];
            unified.copy_to_host_at(3, &mut part).unwrap();
            assert!(part == source, "{count} elements, {threads} threads");
            assert!(unified.host().unwrap()[3..count + 3] == source);
        }
    }
}

#[test]
fn chunks_are_allocated_once_and_as_copies_need_them() {
    let (sim, device, stream) = simulated(Gpu::H200);
    let options = small(2).ring_bytes(1 << 20);
    device.set_transfer_options(options);
    let mut buffer = DeviceBuffer::<u32>::zeroed(&device, 600_000).unwrap();
    buffer.copy_from_host_at(0, &[1; 100]).unwrap();
    assert_eq!(
        calls(&sim, "cudaHostAlloc"),
        0,
        "too small for these options"
    );
    buffer.copy_from_host_at(0, &[1; 3000]).unwrap();
    assert_eq!(calls(&sim, "cudaHostAlloc"), 1);
    let source = numbers(600_000, 2);
    for _ in 0..5 {
        buffer.copy_from_host(&source).unwrap();
    }
    // The helper thread may have come too late for any piece.
    let allocated = calls(&sim, "cudaHostAlloc");
    assert!((2..=5).contains(&allocated), "{allocated}");
    device.set_transfer_options(options.ring_bytes(0));
    assert_eq!(calls(&sim, "cudaFreeHost"), allocated);
    buffer.copy_from_host(&source).unwrap();
    assert_eq!(calls(&sim, "cudaHostAlloc"), allocated, "staging is off");

    drop((buffer, stream));
    device.runtime().reclaim().unwrap();
    device.set_transfer_options(small(1));
    let mut last = DeviceBuffer::<u32>::zeroed(&device, 50_000).unwrap();
    last.copy_from_host(&source[..50_000]).unwrap();
    // The ring is freed with the device: at the end nothing is left.
}

#[test]
fn one_mebibyte_goes_to_an_idle_stream_by_the_driver_and_to_a_busy_one_through_the_ring() {
    let (sim, device, stream) = simulated(Gpu::H200);
    device.set_transfer_options(small(2).ring_bytes(4 << 20));
    let source = numbers(1 << 18, 10);
    let mut buffer = DeviceBuffer::<u32>::zeroed(&device, source.len()).unwrap();
    device.synchronize().unwrap();
    buffer.copy_from_host(&source).unwrap();
    assert_eq!(calls(&sim, "cudaHostAlloc"), 0);
    // The copy waits on its stream for the work of another one; the call returns.
    let _watchdog = watch();
    let paused = sim.pause();
    buffer.fill_on(1, &stream).unwrap();
    buffer.copy_from_host(&source).unwrap();
    assert!(!stream.is_idle().unwrap());
    assert!(calls(&sim, "cudaHostAlloc") > 0);
    drop(paused);
    assert_eq!(buffer.to_vec().unwrap(), source);
}

#[test]
fn a_copy_to_the_device_returns_when_its_source_is_free() {
    let (sim, device, stream) = simulated(Gpu::H200);
    device.set_transfer_options(small(1));
    let mut buffer = DeviceBuffer::<u32>::zeroed(&device, 30_000).unwrap();
    let mut source = numbers(30_000, 7);
    sim.clear_trace();
    for round in 0..6 {
        source.fill(round);
        buffer.copy_from_host(&source).unwrap();
        // The copy may still be in flight.
        source.fill(u32::MAX);
        let mut other = DeviceBuffer::<u32>::zeroed(&device, 30_000).unwrap();
        stream.copy(&buffer, &mut other).unwrap();
        let mut back = vec![0; 30_000];
        other.copy_to_host(&mut back).unwrap();
        assert!(back.iter().all(|value| *value == round), "{round}");
    }
}

#[test]
fn pinned_memory_needs_no_staging() {
    let (sim, device, _) = simulated(Gpu::H200);
    device.set_transfer_options(small(2));
    let pinned = PinnedBuffer::from_slice(&device, &numbers(50_000, 3)).unwrap();
    let mut buffer = DeviceBuffer::<u32>::zeroed(&device, 50_000).unwrap();
    sim.clear_trace();
    let guard = pinned.host().unwrap();
    buffer.copy_from_host(&guard).unwrap();
    assert_eq!(
        (calls(&sim, "cudaMemcpyAsync"), calls(&sim, "cudaHostAlloc")),
        (1, 0)
    );
    let mut back = vec![0; 50_000];
    buffer.copy_to_host(&mut back).unwrap();
    assert!(back == *guard);
}

#[test]
fn a_failure_half_way_says_how_far_it_came_and_the_ring_goes_on() {
    let (sim, device, _) = simulated(Gpu::H200);
    let source = numbers(100_000, 4);
    let zeros = vec![0u32; 100_000];
    for threads in [1, 2] {
        device.set_transfer_options(small(threads));
        let mut buffer = DeviceBuffer::<u32>::zeroed(&device, 100_000).unwrap();
        buffer.copy_from_host(&zeros).unwrap();
        sim.fail(
            Fail::call("cudaMemcpyAsync")
                .nth(8)
                .with(cudaError::cudaErrorInvalidValue),
        );
        let error = buffer.copy_from_host(&source).unwrap_err();
        let Error::Incomplete {
            copied_bytes,
            total_bytes,
            ..
        } = error
        else {
            panic!("{error}")
        };
        assert_eq!(total_bytes, 400_000);
        assert!(
            copied_bytes > 0 && copied_bytes < total_bytes,
            "{copied_bytes}"
        );
        let mut back = vec![1; 100_000];
        buffer.copy_to_host(&mut back).unwrap();
        assert!(
            back[..copied_bytes / 4] == source[..copied_bytes / 4],
            "{copied_bytes} bytes are certain"
        );

        buffer.copy_from_host(&source).unwrap();
        sim.fail(
            Fail::call("cudaMemcpyAsync")
                .nth(8)
                .with(cudaError::cudaErrorInvalidValue),
        );
        let error = buffer.copy_to_host(&mut back).unwrap_err();
        let Error::Incomplete { copied_bytes, .. } = error else {
            panic!("{error}")
        };
        assert!(back[..copied_bytes / 4] == source[..copied_bytes / 4]);
        buffer.copy_to_host(&mut back).unwrap();
        assert!(back == source);
    }
}

#[test]
fn without_pinned_memory_the_driver_copies() {
    let (sim, device, _) = simulated(Gpu::H200);
    device.set_transfer_options(small(2));
    sim.fail(Fail::call("cudaHostAlloc").with(cudaError::cudaErrorMemoryAllocation));
    let source = numbers(50_000, 5);
    let buffer = DeviceBuffer::from_slice(&device, &source).unwrap();
    let mut back = vec![0; 50_000];
    buffer.copy_to_host(&mut back).unwrap();
    assert!(back == source);
}

#[test]
fn tasks_on_one_thread_take_turns_while_they_copy() {
    let (_sim, device, _) = simulated(Gpu::H200);
    let source = numbers(5 << 20, 8);
    let turns = std::cell::Cell::new(0);
    let copies = async {
        let mut buffer = UnifiedBuffer::<u32>::zeroed(&device, source.len()).unwrap();
        buffer.copy_from_host_async(&source).await.unwrap();
        assert!(turns.get() >= 4, "five pieces of 4 MiB: {}", turns.get());
        let mut back = vec![0; source.len()];
        buffer.copy_to_host_async(&mut back).await.unwrap();
        assert!(back == source && buffer.to_vec().unwrap() == source);
        let error = buffer.copy_from_host_async(&source[1..]).await;
        assert!(
            matches!(error, Err(Error::LengthMismatch { .. })),
            "{error:?}"
        );
        turns.set(u32::MAX);
    };
    let other = async {
        while turns.get() < u32::MAX {
            turns.set(turns.get() + 1);
            one_turn().await;
        }
    };
    futures_executor::block_on(in_turn(copies, other));
}

/// Lets other tasks run once.
async fn one_turn() {
    let mut had_turn = false;
    std::future::poll_fn(|context| {
        context.waker().wake_by_ref();
        match std::mem::replace(&mut had_turn, true) {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        }
    })
    .await;
}

/// Runs both in turn.
async fn in_turn(first: impl Future<Output = ()>, second: impl Future<Output = ()>) {
    let (mut first, mut second) = (std::pin::pin!(first), std::pin::pin!(second));
    let (mut first_done, mut second_done) = (false, false);
    std::future::poll_fn(move |context| {
        first_done = first_done || first.as_mut().poll(context).is_ready();
        second_done = second_done || second.as_mut().poll(context).is_ready();
        match first_done && second_done {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        }
    })
    .await;
}

#[test]
fn an_asynchronous_copy_that_ends_half_way_says_how_far_it_came() {
    let (sim, device, _) = simulated(Gpu::H200);
    device.set_transfer_options(TransferOptions::default().threads(1));
    let source = numbers(3 << 20, 9);
    let mut buffer = DeviceBuffer::<u32>::zeroed(&device, source.len()).unwrap();
    device.synchronize().unwrap();
    // The second piece of 4 MiB.
    let before = calls(&sim, "cudaMemcpyAsync");
    buffer.copy_from_host_at(0, &source[..1 << 20]).unwrap();
    let of_a_piece = calls(&sim, "cudaMemcpyAsync") - before;
    sim.fail(
        Fail::call("cudaMemcpyAsync")
            .nth(of_a_piece as u64 + 1)
            .with(cudaError::cudaErrorInvalidValue),
    );
    let error = futures_executor::block_on(buffer.copy_from_host_async(&source)).unwrap_err();
    assert!(
        matches!(error, Error::Incomplete { copied_bytes, total_bytes: 12_582_912, .. } if copied_bytes == 4 << 20),
        "{error}"
    );
    let mut back = vec![0; 1 << 20];
    buffer.copy_to_host_at(0, &mut back).unwrap();
    assert!(back == source[..1 << 20]);
}
