//! Calls, allocations, and what one thread of the host copies.

use super::{Bench, SMALL, fresh, verify};
use crate::raw::Kind;
use anyhow::Result;
use std::hint::black_box;

/// Calls in a row: they fit into the driver's queue.
const ROW: usize = 256;

/// The host's time of one launch, memset, record, query and wait, of many in a row.
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
        ("launch", launch),
        ("enqueue", enqueue),
        ("event_record", record),
        ("query", query),
        ("stream_wait", wait),
    ] {
        bench.time(name, seconds);
    }
    Ok(())
}

/// Allocations that nobody touches; freeing them is not timed.
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
    let device = each(Kind::Device, 4 << 20, 4)?;
    let large = bench.plan.large;
    let pinned = each(Kind::Pinned, large, 1)?;
    let pool = bench.median(SMALL, |_| {
        let time = bench
            .clock
            .time_each(ROW, || raw.allocate_and_free_in_order(SMALL))?;
        raw.synchronize()?;
        Ok(time)
    });
    bench.time("managed_alloc", managed);
    bench.time("device_alloc_small", device_small);
    bench.time("device_alloc", device);
    bench.rate("pin_rate", large as f64 / (pinned - bench.enqueue()));
    match pool {
        // Allocating and freeing take about the same.
        Ok(both) => bench.time("pool_alloc", both / 2.0),
        Err(error) => bench.note("pool_alloc", &error.to_string()),
    }
    Ok(())
}

/// Memory copied by one thread.
pub(super) fn one_thread(bench: &mut Bench) -> Result<()> {
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
    bench.rate("host_copy_rate", large as f64 / seconds);
    Ok(())
}
