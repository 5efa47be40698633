//! Calls and allocations.

use crate::raw::{Kind, Raw};
use anyhow::Result;
use std::rc::Rc;
use um_kernels::calibrate::{SMALL, Session, fresh, verify};

/// Large allocations consist of blocks of this size.
const BLOCK: usize = 2 << 20;
/// Number of blocks of an allocation that shows the cost of the call.
const SOME_BLOCKS: usize = 2;
/// Calls in a row: they fit into the driver's queue.
const ROW: usize = 256;

/// The host time of one launch, memset, record, query and wait, out of many in a row.
pub(super) fn calls(session: &mut Session, raw: &Rc<Raw>) -> Result<()> {
    let source = fresh(SMALL, 1);
    let mut input = raw.allocate(Kind::Device, source.len())?;
    let mut output = raw.allocate(Kind::Device, source.len())?;
    raw.copy_from_slice(&mut input, &source)?;
    let mark = raw.mark()?;
    let each = |work: &mut dyn FnMut() -> Result<()>| {
        session.median(SMALL, |_| {
            let time = session.clock.time_each(ROW, &mut *work)?;
            raw.synchronize()?;
            anyhow::Ok(time)
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
        session.time(name, seconds);
    }
    Ok(())
}

/// Allocations that are not touched; freeing them is not timed.
pub(super) fn allocations(session: &mut Session, raw: &Rc<Raw>) -> Result<()> {
    let each = |kind, bytes: usize, count: usize| {
        session.median(bytes, |_| {
            let mut all = Vec::with_capacity(count);
            let time = session.clock.time_each(count, || {
                all.push(raw.allocate(kind, bytes / 4)?);
                anyhow::Ok(())
            })?;
            all.into_iter().try_for_each(|memory| memory.free())?;
            anyhow::Ok(time)
        })
    };
    let managed = each(Kind::Managed, SMALL, 32)?;
    let device_small = each(Kind::Device, SMALL, 32)?;
    let device = each(Kind::Device, SOME_BLOCKS * BLOCK, 4)?;
    let managed_large = each(Kind::Managed, SOME_BLOCKS * BLOCK, 4)?;
    let large = session.plan.large;
    let device_whole = each(Kind::Device, large, 1)?;
    let managed_whole = each(Kind::Managed, large, 1)?;
    let pinned_small = each(Kind::Pinned, SMALL, 4)?;
    let pinned = each(Kind::Pinned, large, 1)?;
    let pool = session.median(SMALL, |_| {
        let time = session
            .clock
            .time_each(ROW, || raw.allocate_and_free_in_order(SMALL))?;
        raw.synchronize()?;
        anyhow::Ok(time)
    });
    session.time("managed_alloc_us", managed);
    session.time("device_alloc_small_us", device_small);
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
        session.time(block_key, block);
        session.time(key, some - SOME_BLOCKS as f64 * block);
    }
    session.time("pinned_alloc_us", pinned_small);
    session.rate("pin_bytes_per_s", large as f64 / (pinned - pinned_small));
    match pool {
        // An allocation and a free take about the same time.
        Ok(both) => session.time("pool_alloc_us", both / 2.0),
        Err(error) => session.note("pool_alloc_us", &error.to_string()),
    }
    Ok(())
}
