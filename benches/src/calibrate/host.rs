//! Calls, allocations, and copies by one host thread.

use super::bench::{Bench, SMALL, fresh, verify};
use crate::raw::Kind;
use anyhow::{Result, ensure};
use std::hint::black_box;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Large allocations consist of blocks of this size.
const BLOCK: usize = 2 << 20;
/// Number of blocks of an allocation that shows the cost of the call.
const SOME_BLOCKS: usize = 2;
/// Calls in a row: they fit into the driver's queue.
const ROW: usize = 256;

/// The host time of one launch, memset, record, query and wait, out of many in a row.
pub(super) fn calls(bench: &mut Bench) -> Result<()> {
    let raw = bench.raw.clone();
    let source = fresh(SMALL, 1);
    let mut input = raw.allocate(Kind::Device, source.len())?;
    let mut output = raw.allocate(Kind::Device, source.len())?;
    raw.copy_from_slice(&mut input, &source)?;
    let mark = raw.mark()?;
    let each = |work: &mut dyn FnMut() -> Result<()>| {
        bench.median(SMALL, |_| {
            let time = bench.clock.time_each(ROW, &mut *work)?;
            raw.synchronize()?;
            Ok(time)
        })
    };
    let launch = each(&mut || raw.scale(&input, &mut output, 2.0))?;
    let mut back = vec![f32::NAN; source.len()];
    raw.copy_to_slice(&output, &mut back)?;
    verify(&back, &source, 2.0)?;
    let enqueue = each(&mut || raw.clear(&mut output))?;
    let record = each(&mut || mark.record())?;
    let query = each(&mut || mark.query())?;
    let wait = each(&mut || mark.hold_stream())?;
    for (name, seconds) in [
        ("launch_us", launch),
        ("enqueue_us", enqueue),
        ("event_record_us", record),
        ("query_us", query),
        ("stream_wait_us", wait),
    ] {
        bench.time(name, seconds);
    }
    Ok(())
}

/// Allocations that are not touched; freeing them is not timed.
pub(super) fn allocations(bench: &mut Bench) -> Result<()> {
    let raw = bench.raw.clone();
    let each = |kind, bytes: usize, count: usize| {
        bench.median(bytes, |_| {
            let mut all = Vec::with_capacity(count);
            let time = bench.clock.time_each(count, || {
                all.push(raw.allocate(kind, bytes / 4)?);
                Ok(())
            })?;
            all.into_iter().try_for_each(|memory| memory.free())?;
            Ok(time)
        })
    };
    let managed = each(Kind::Managed, SMALL, 32)?;
    let device_small = each(Kind::Device, SMALL, 32)?;
    let device = each(Kind::Device, SOME_BLOCKS * BLOCK, 4)?;
    let managed_large = each(Kind::Managed, SOME_BLOCKS * BLOCK, 4)?;
    let large = bench.plan.large;
    let device_whole = each(Kind::Device, large, 1)?;
    let managed_whole = each(Kind::Managed, large, 1)?;
    let pinned_small = each(Kind::Pinned, SMALL, 4)?;
    let pinned = each(Kind::Pinned, large, 1)?;
    let pool = bench.median(SMALL, |_| {
        let time = bench
            .clock
            .time_each(ROW, || raw.allocate_and_free_in_order(SMALL))?;
        raw.synchronize()?;
        Ok(time)
    });
    bench.time("managed_alloc_us", managed);
    bench.time("device_alloc_small_us", device_small);
    for (key, block_key, some, whole) in [
        (
            "managed_alloc_large_us",
            "managed_alloc_block_us",
            managed_large,
            managed_whole,
        ),
        (
            "device_alloc_us",
            "device_alloc_block_us",
            device,
            device_whole,
        ),
    ] {
        let block = (whole - some) / (large / BLOCK - SOME_BLOCKS) as f64;
        bench.time(block_key, block);
        bench.time(key, some - SOME_BLOCKS as f64 * block);
    }
    bench.time("pinned_alloc_us", pinned_small);
    bench.rate("pin_bytes_per_s", large as f64 / (pinned - pinned_small));
    match pool {
        // An allocation and a free take about the same time.
        Ok(both) => bench.time("pool_alloc_us", both / 2.0),
        Err(error) => bench.note("pool_alloc_us", &error.to_string()),
    }
    Ok(())
}

/// The copy rate of one thread, and the time to wake another one.
pub(super) fn threads(bench: &mut Bench) -> Result<()> {
    if bench.simulated() {
        return Ok(());
    }
    let large = bench.plan.large;
    let source = fresh(large, 1);
    let mut target = vec![0.0; source.len()];
    let seconds = bench.median(large, |_| {
        bench.clock.time(|| {
            black_box(&mut target[..]).copy_from_slice(black_box(&source[..]));
            Ok(())
        })
    })?;
    verify(&target, &source, 1.0)?;
    bench.rate("host_copy_bytes_per_s", large as f64 / seconds);
    let wake = there_and_back(bench)? / 2.0;
    bench.time("thread_wake_us", wake);
    Ok(())
}

/// Seconds until a sleeping thread has answered; two threads are woken one after the other.
fn there_and_back(bench: &Bench) -> Result<f64> {
    let (ask, asked) = mpsc::channel::<u64>();
    let (answer, answered) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || asked.into_iter().try_for_each(|round| answer.send(round)));
        let seconds = bench.median(SMALL, |round| {
            // Long enough for the other thread to fall asleep.
            thread::sleep(Duration::from_millis(1));
            bench.clock.time(|| {
                ask.send(round)?;
                ensure!(answered.recv()? == round, "another answer");
                Ok(())
            })
        });
        // The other thread ends when the channel is closed.
        drop(ask);
        seconds
    })
}
